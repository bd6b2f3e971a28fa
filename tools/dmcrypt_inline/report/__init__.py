"""Show measurements as tables, charts and pages."""
