"""What the records of a log say: the state they make, and how people and programs see them."""
