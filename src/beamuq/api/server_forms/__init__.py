"""The forms of servers' responses that are read, a module a form, and the parts that they share."""
