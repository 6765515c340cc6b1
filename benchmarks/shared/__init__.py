"""What several benchmarks need: declared arguments, models of the corpus, kept records, tables, pages, child
processes."""
