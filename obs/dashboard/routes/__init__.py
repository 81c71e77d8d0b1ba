"""The pages, one module each. All but the sign-in page are for people who are signed in; changes need an admin."""
