"""Measurements that anyone can repeat: ratios, taken in one run on one machine."""
