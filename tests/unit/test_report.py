"""The README's performance section is what the benchmarks' results say."""

from benchmarks.report import NAMES, PLOT, README, cases, load, notebook_table, with_section


def test_the_readme_quotes_the_results():
    readme = README.read_text(encoding="utf-8")
    assert with_section(readme) == readme, "run python -m benchmarks.report"
    assert PLOT.exists()


def test_a_row_for_each_case_with_all_three():
    results = load("h200-notebook")["results"]
    for case, of in cases(results):
        assert set(of) == set(NAMES), case
    table = notebook_table(results).splitlines()
    assert len(table) == 2 + len(cases(results))
    assert {row.count("|") for row in table} == {8}
