"""What is known about a network: why each layer runs as it does and how fast (`explain`), how good its answers are
(`validating`, `evaluating`, `accuracy`), how a better one is found (`quantizing`, `training`, `sweeping`), what one
would cost that nobody has trained yet (`estimating`), and the texts and pages that show it (`report`). It compiles and
measures; it decides nothing for the compiler.

May import: machine, compiler.
Rooms, from the ground up: workers, runs, explain, validating, evaluating, quantizing, training, accuracy, estimating,
sweeping, report.
"""
