"""What every table, view and column means: from the migrations, the metric table and `sql/meanings.toml`.

`meanings` says what one column means and in which unit, `catalogue` reads what a store has, `commenting` says which
comments its views should carry (so that DESCRIBE and BI tools show them), `page` is docs/sql.md, and `stability` holds
the columns of stable views against what was promised.
"""
