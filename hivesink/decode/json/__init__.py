"""The decoder of JSON: three tiers, each of which proves its rows or leaves them to the next. `exact` defines right."""
