"""`atonc sweep`: models x input sizes x options x boards, each compiled once, as a table and a page with the front.

`plan.py` reads the file and makes the rows, `row.py` computes one, `run.py` all of them, `front.py` finds the rows that
no other beats. Rows of applications come from the wing above (`delivery/application/comparing.py`).
"""
