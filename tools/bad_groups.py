"""Mistakes that are made with rates per group, in Python and on the command line, and the message of each.

    python tools/bad_groups.py            # a Markdown table of all calls and messages

The tests run the same calls, and compare the messages with those that are expected here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bad_calls import BadCall, print_table
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import baserate as br

CALLS = (
    BadCall(
        "br.adjust(p, by_region)",
        "BadGroups: the rates are given by 'region', but it is not known to which group each row belongs;"
        " pass groups= with one value per row, or predictions as a dataframe with these columns",
    ),
    BadCall(
        "br.adjust(frame, br.Rates.by('reigon', table))",
        "BadGroups: probs has no column 'reigon', by which the rates are given (did you mean 'region'?); "
        "it has 'id', 'well', 'ill', 'region', 'age'",
    ),
    BadCall(
        "br.adjust(frame, br.Rates.by('Region', table.rename_axis('Region')))",
        "BadGroups: probs has no column 'Region', by which the rates are given (did you mean 'region'?); "
        "it has 'id', 'well', 'ill', 'region', 'age'",
    ),
    BadCall(
        "br.adjust(p, by_region, groups=region[:-1])",
        "BadGroups: the groups 'region' have 5 values, but there are 6 rows",
    ),
    BadCall(
        "br.adjust(p, by_region, groups='region')",
        "BadGroups: groups must be an array with one group per row, a dict of arrays or a dataframe, not 'region'",
    ),
    BadCall(
        "br.adjust(p, by_region, groups=np.stack([region, region], axis=1))",
        "BadGroups: the groups 'region' must be one value per row, but are a ndarray of shape (6, 2)",
    ),
    BadCall(
        "br.adjust(p, br.Rates.by(['region', 'age'], {('north', 1): 0.2}), groups=region)",
        "BadGroups: groups is one array, but the rates are given by 'region', 'age'; pass a dict or a "
        "dataframe with these columns",
    ),
    BadCall(
        "br.adjust(p, by_region, groups={'area': region})",
        "BadGroups: groups has no column 'region', by which the rates are given; it has 'area'",
    ),
    BadCall(
        "br.adjust(p, br.Rates.by('region', {'north': 0.2}), groups=region)",
        "BadGroups: 3 rows have groups that are not in the table by region: region 'south'. The table has"
        " region 'north'. Add them to the table, with missing values if their rates are not known, or "
        "pass Rates.by(..., unlisted='free') to assume nothing about the rates of all such rows",
    ),
    BadCall(
        "br.adjust(p, br.Rates.by('region', {**rates, 'east': 0.1}), groups=region)",
        "GroupsWarning: 1 group has rates but no rows, which changes nothing: region 'east'",
    ),
    BadCall(
        "br.adjust(p, by_region, groups=[None, *region[1:]])",
        "BadGroups: 1 row has no value of 'region'; fill in the missing values, or pass Rates.by(..., "
        "unlisted='free') to assume nothing about the rates of these rows",
    ),
    BadCall(
        "br.adjust(p, by_region, groups=[[1], *region[1:]])",
        "BadGroups: the groups 'region' must be one value per row, but are a list",
    ),
    BadCall(
        "br.adjust(p, br.Rates.by('id', {i: 0.2 for i in range(6)}), groups=list(range(6)))",
        "GroupsWarning: 6 groups have a single row and exact rates: the rates of one row are its label. "
        "Join small groups, or pass Rates.by(..., kind='population') if these are rates of a population: "
        "id 0; id 1; id 2; id 3; id 4 and 1 more",
    ),
    BadCall(
        "br.adjust(p, 0.2, groups=region)",
        "BadOption: groups= says to which group each row belongs, but the rates are not given per group; "
        "pass Rates.by('name of a column', table)",
    ),
    BadCall(
        "br.adjust(frame.set_index('id'), by_region, groups=frame.set_index('id')['region'].iloc[::-1])",
        "BadGroups: groups and probs have the same index in different orders; bring them into the same "
        "order with groups.loc[probs.index]",
    ),
    BadCall(
        "br.adjust(frame, br.Rates.by('region', table.assign(n=[3, 3])))",
        "BadRates: the rate of class 'n' in region 'north' is 3; rates must be between 0 and 1 (2 groups "
        "have such entries). Divide percentages by 100; for the counts of a survey pass Rates.by(..., "
        "kind='counts')",
    ),
    BadCall(
        "br.adjust(p, br.Rates.by('region', table * 0.9), groups=region, classes=['well', 'ill'])",
        "BadRates: the rates of region 'north' sum to 0.9, not 1 (2 groups do not sum to 1); divide each "
        "row by its sum, or pass Rates.by(..., rounding='auto') if the table was rounded",
    ),
    BadCall(
        "br.Rates.by('region', {'north': 20, 'south': 10})",
        "BadRates: the rate of the positive class in region 'north' is 20; rates must be between 0 and 1 "
        "(2 groups have such entries). Divide percentages by 100; for the counts of a survey pass "
        "Rates.by(..., kind='counts')",
    ),
    BadCall(
        "br.Rates.by('region', {'north': 0.2, 'south': 'high'})",
        "BadRates: the rate of region 'south' is 'high', which is not a number",
    ),
    BadCall(
        "br.Rates.by('region', {'north': {'ill': (0.3, 0.2)}})",
        "BadRates: the lower bound of class 'ill' in region 'north' (0.3) is above the upper bound (0.2)",
    ),
    BadCall(
        "br.Rates.by('region', pd.concat([table, table]).reset_index())",
        "BadRates: the table has region 'north' more than once; a table with one row per group and class "
        "needs a column 'class'",
    ),
    BadCall(
        "br.Rates.by('region', long_table.iloc[[0, 0, 1, 2]])",
        "BadRates: the table has class 'well' of region 'north' more than once",
    ),
    BadCall(
        "br.Rates.by('region', long_table.rename(columns={'rate': 'value'}))",
        "BadRates: the table has a column 'class', so it must also have a column 'rate', columns 'low' "
        "and 'high', or a column 'count'; it has 'value'",
    ),
    BadCall(
        "br.Rates.by(['state', 'age'], {'north': 0.2})",
        "BadRates: the rates are given by 'state', 'age', but the table has the group 'north'; a group "
        "needs 2 values, as a tuple",
    ),
    BadCall(
        "br.Rates.by(['region', 'region'], table)",
        "BadOption: the groups contain the column 'region' twice",
    ),
    BadCall(
        "br.Rates.by('region', 0.2)",
        "BadRates: the rates by 'region' are a float; pass a dataframe with one row per group and one "
        "column per class, a dict of dicts, a dict or Series with one rate per group for two classes, a "
        "long table with a column 'class', or a CSV file",
    ),
    BadCall(
        "br.Rates.by('region', {})",
        "BadRates: the table of rates by 'region' is empty",
    ),
    BadCall(
        "br.Rates.by('region', table, kind='survey')",
        "BadOption: kind must be 'rates', 'counts' or 'population', not 'survey'",
    ),
    BadCall(
        "br.Rates.by('region', table, kind='counts')",
        "BadRates: the entry of class 'well' in region 'north' is 0.8; counts must be whole numbers of cases",
    ),
    BadCall(
        "br.Rates.by('region', table, rounding=5)",
        "BadOption: rounding must be the largest rounding error of a rate, such as 0.005, or 'auto', not 5",
    ),
    BadCall(
        "br.Rates.by('region', table, unlisted='ignore')",
        "BadOption: unlisted must be 'raise' or 'free', not 'ignore'",
    ),
    BadCall(
        "br.Rates.by('region', 'missing.csv')",
        "BadFile: the file missing.csv with the rates cannot be read: No such file or directory",
    ),
    BadCall(
        "br.Margins()",
        "BadOption: Margins needs at least one table of rates: Margins(Rates.by(...), Rates.by(...))",
    ),
    BadCall(
        "br.Margins(by_region, 'age')",
        "BadOption: part 1 of Margins is 'age'; pass Rates.by(...) or the rates of all rows",
    ),
    BadCall(
        "br.adjust(p, br.Margins(by_region, br.Rates.by('age', {1: 0.4, 2: 0.4})), groups=frame)",
        "BadRates: region and age disagree: for class 0 region sums to 4.500 rows, age to 3.600 rows; "
        "correct the tables, or pass rounding=0.005 if their numbers are rounded",
    ),
    BadCall(
        "br.adjust(p, br.Margins(by_region, 0.5), groups=region)",
        "BadRates: region and all rows disagree: for class 0 region sums to 4.500 rows, all rows to 3 "
        "rows; correct the tables, or pass rounding=0.005 if their numbers are rounded",
    ),
    BadCall(
        "br.adjust(zeros, br.Rates.by('region', {'north': 0.5, 'south': 0.1}), groups=region)",
        "InfeasibleRates: region 'north': class 1 would need a mean of 0.5, but no row gives it "
        "a probability above 0, which allows at most 0; pass zeros=1e-6 to smooth the zeros, choose a "
        'loss that can move them (loss="brier"), or correct the rates',
    ),
    BadCall(
        "fitted.apply(p[:2], groups=['north', 'east'])",
        "BadGroups: 1 row is of groups by region that were not there in the fit: region 'east'. Nothing "
        "is known about them; pass unseen='pooled' to adjust them by the mean shift of all groups, or "
        "leave these rows out",
    ),
    BadCall(
        "fitted.apply(p[:2])",
        "BadGroups: the rates are given by 'region', but it is not known to which group each row belongs;"
        " pass groups= with one value per row, or predictions as a dataframe with these columns",
    ),
    BadCall(
        "fitted.apply(p[:1], groups=['north'], unseen='mean')",
        "BadOption: unseen must be 'raise' or 'pooled', not 'mean'",
    ),
    BadCall(
        "fitted.by_group('age')",
        "BadOption: there is no margin 'age'; the margins are 'region'",
    ),
    BadCall(
        "fitted.what_if(br.Rates.by('age', {1: 0.2, 2: 0.3}))",
        "BadGroups: the rates are given by 'age', but the adjustment only read 'region'; call adjust again",
    ),
    BadCall(
        "fitted.certificate.bounds",
        "BadRates: each group has its own bounds: result.by_group() has them as at_least and at_most",
    ),
    BadCall(
        "br.prior_adjust(p, 0.5, by_region)",
        "BadRates: rates by region can only be used by br.adjust, which adjusts each group to its own "
        "rates; pass the rates of all rows here",
    ),
    BadCall(
        "br.compare(p, [0, 1, 0, 0, 1, 0], by_region)",
        "BadRates: rates by region can only be used by br.adjust, which adjusts each group to its own "
        "rates; pass the rates of all rows here",
    ),
    BadCall(
        "br.AdjustedClassifier(model).adapt(x, by_region)",
        "BadGroups: the rates are given by 'region', but it is not known to which group each row belongs;"
        " pass groups= with one value per row, or predictions as a dataframe with these columns",
    ),
    BadCall(
        "br.adjust(folder / 'preds.csv', by_region, groups=region)",
        "BadGroups: the groups of rows in files are columns of the files; leave groups= out",
    ),
    BadCall(
        "br.adjust(folder / 'preds.csv', br.Rates.by('reg', table))",
        "BadGroups: preds.csv has no column 'reg', by which the rates are given (did you mean 'region'?);"
        " it has 'id', 'well', 'ill', 'region', 'age'",
    ),
    BadCall(
        "baserate fit preds.csv --by region",
        "Error: --by is given once, and --rates-file 0 times; each --by needs its own file",
    ),
    BadCall(
        "baserate fit preds.csv --by regions --rates-file rates.csv",
        "Error: rates.csv has no column 'regions', by which the rates are given (did you mean 'region'?);"
        " it has 'region', 'well', 'ill'",
    ),
    BadCall(
        "baserate fit preds.csv --by region --rates-file short.csv",
        "Error: 3 rows have groups that are not in the table by region: region 'south'. The table has "
        "region 'north'. Add them to the table, with missing values if their rates are not known, or pass"
        " --unlisted free to assume nothing about the rates of all such rows",
    ),
    BadCall(
        "baserate fit preds.csv --by region --rates-file rounded.csv",
        "Error: the rates of region 'north' sum to 0.9, not 1 (2 groups do not sum to 1); divide each row"
        " by its sum, or pass --rounding auto if the table was rounded",
    ),
    BadCall(
        "baserate fit preds.csv --by region --rates-file rates.csv --rounding some",
        "Error: --rounding must be a number, such as 0.005, or auto, not 'some'",
    ),
    BadCall(
        "baserate fit preds.csv",
        "Error: Missing option '--rates', or '--by' and '--rates-file' for rates per group.",
    ),
    BadCall(
        "baserate apply east.csv --shift shift.json --out out.csv",
        "Error: 3 rows are of groups by region that were not there in the fit: region 'east'. Nothing is "
        "known about them; pass --unseen pooled to adjust them by the mean shift of all groups, or leave "
        "these rows out",
    ),
)


def inputs(folder: Path) -> dict[str, Any]:
    """The names that the calls use, and the files that the commands read."""
    p, region, age = np.array([0.1, 0.4, 0.7, 0.02, 0.55, 0.25]), ["north", "south"] * 3, [1, 1, 1, 2, 2, 2]
    rates = {"north": 0.2, "south": 0.3}
    table = pd.DataFrame({"well": [0.8, 0.7], "ill": [0.2, 0.3]}, index=pd.Index(["north", "south"], name="region"))
    frame = pd.DataFrame({"id": range(6), "well": 1 - p, "ill": p, "region": region, "age": age})
    x = np.random.default_rng(0).normal(size=(6, 1))
    by_region = br.Rates.by("region", rates)
    fitted = br.adjust(p, by_region, groups=region)
    frame.to_csv(folder / "preds.csv", index=False)
    frame.replace("south", "east").to_csv(folder / "east.csv", index=False)
    table.to_csv(folder / "rates.csv")
    table.iloc[:1].to_csv(folder / "short.csv")
    (table * 0.9).round(2).to_csv(folder / "rounded.csv")
    br.adjust(frame, br.Rates.by("region", table)).save(folder / "shift.json")
    return {
        "br": br,
        "np": np,
        "pd": pd,
        "p": p,
        "zeros": np.where(np.arange(6) % 2 == 0, 0.0, p),
        "region": region,
        "rates": rates,
        "table": table,
        "long_table": table.reset_index().melt("region", var_name="class", value_name="rate"),
        "counts": pd.DataFrame({"well": [40, 30], "ill": [10, 20]}, index=table.index),
        "by_region": by_region,
        "frame": frame,
        "x": x,
        "model": FrozenEstimator(LogisticRegression().fit(x, [0, 1] * 3)),
        "fitted": fitted,
        "folder": folder,
    }


def main() -> None:
    """Print the table."""
    print_table(CALLS, inputs)


if __name__ == "__main__":
    main()
