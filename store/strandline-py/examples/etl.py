"""A nightly job: sales come as CSV, are cleaned in transactions, and go to a report of each day.

    python etl.py sales.csv shop.pool report.csv

It can be run again with the same file, or after it was killed: a batch of rows is stored as a whole or not at all, together with how far the job is.
"""

import csv
import dataclasses
import datetime
import enum
import itertools
import pathlib
import sys

import pandas

from strandline import Database

BATCH = 1000


class Channel(enum.Enum):
    SHOP = "shop"
    WEB = "web"


@dataclasses.dataclass
class Sale:
    item: str
    pieces: int
    price: float
    channel: Channel


class Shop:
    """The tables of the job."""

    def __init__(self, db):
        self.db = db
        # A day's sales lie together, in order.
        self.sales = db.table("sales", tuple[datetime.date, int], Sale)
        self.refused = db.table("refused", int, dict)
        self.progress = db.table("progress", str, int)

    def load(self, path):
        """Stores the rows of a file that are not stored yet; returns how many were read."""
        with open(path, newline="") as file:
            done = self.progress.get(path.name, 0)
            rows = enumerate(itertools.islice(csv.DictReader(file), done, None), done)
            while batch := list(itertools.islice(rows, BATCH)):
                with self.db.write() as tx:
                    tx[self.sales].update(self.cleaned(tx, batch))
                    tx[self.progress][path.name] = batch[-1][0] + 1
            return self.progress.get(path.name, 0) - done

    def cleaned(self, tx, batch):
        """Key and value of each row that is a sale; the others are kept as they are."""
        for number, row in batch:
            try:
                sale = Sale(row["item"].strip().lower(), int(row["pieces"]), float(row["price"]), Channel(row["channel"]))
                yield (datetime.date.fromisoformat(row["day"]), number), sale
            except (ValueError, AttributeError) as error:
                tx[self.refused][number] = {"row": row, "why": str(error)}

    def discount(self, name, channel, percent, since):
        """Lowers prices of a channel, all or none, and once."""
        with self.db.write() as tx:
            if name in tx[self.progress]:
                return
            tx[self.progress][name] = 1
            sales = tx[self.sales]
            for key, sale in sales.items((since, 0)):
                if sale.channel is channel:
                    sales[key] = dataclasses.replace(sale, price=round(sale.price * (100 - percent) / 100, 2))

    def report(self):
        """Turnover of each day and channel. Sales may come in meanwhile: the report is of one moment."""
        with self.db.snapshot() as then:
            frame = then[self.sales].to_pandas().rename(columns={"key_0": "day", "key_1": "number"})
        frame["turnover"] = frame["pieces"] * frame["price"]
        return frame.pivot_table(index="day", columns="channel", values="turnover", aggfunc="sum", fill_value=0.0)


def main(source, pool, target):
    pandas.set_option("display.width", 120)
    with Database.open(pool) as db:
        shop = Shop(db)
        read = shop.load(pathlib.Path(source))
        print(f"{read} rows read, {len(shop.sales)} sales, {len(shop.refused)} refused")
        if read:
            shop.discount("Black Friday", Channel.WEB, 10, datetime.date(2026, 11, 27))
        report = shop.report()
        print(report)
        report.to_csv(target)
        backup = pathlib.Path(f"{pool}.backup")
        backup.unlink(missing_ok=True)
        pathlib.Path(f"{backup}.log").unlink(missing_ok=True)
        db.backup(backup)
    with Database.open(backup, read_only=True) as db:
        print("backup:", len(Shop(db).sales), "sales")


if __name__ == "__main__":
    main(*sys.argv[1:])
