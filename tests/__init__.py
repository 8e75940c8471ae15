"""The tests; a package so that `tests.reference` and `tests.e2e.harness` are this project's."""
