"""What mapped operators compute, as plain integer functions on whole arrays.

Between exact arithmetic (`atonc.compiler.ops`) and the emulator stands a third level: the coefficients that lowering
has chosen, applied with nothing but integer sums, products, rounded shifts and limits. It knows neither registers nor
engines nor memory, so it finds mistakes in all of them; that the coefficients are good shows in its distance from exact
arithmetic.
Recipes say what they mean with `Context.explain`.
"""
