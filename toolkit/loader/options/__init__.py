"""What fronts can be told: each option declared once, checked alike, and refused by name where it doesn't fit."""
