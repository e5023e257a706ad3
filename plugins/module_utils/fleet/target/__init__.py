"""What runs on managed hosts: Python 3.9, standard library only."""
