"""What was measured, as tables, charts and pages."""
