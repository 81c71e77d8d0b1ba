"""Annotations: points and bands that are drawn on every chart, kept 90 days."""
