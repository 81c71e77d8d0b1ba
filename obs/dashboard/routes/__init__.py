"""The pages. All but the sign-in are for whoever is signed in; what changes anything takes an admin."""
