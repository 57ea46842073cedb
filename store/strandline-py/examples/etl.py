"""A nightly job: it reads sales from CSV, cleans them in transactions, and writes a report of each day.

    python etl.py sales.csv shop.pool report.csv

It can be run again with the same file, or after it was killed: each batch of rows is stored completely or not at all, together with the progress of the job.
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
        # The sales of a day are stored together, in order.
        self.sales = db.table("sales", tuple[datetime.date, int], Sale)
        self.refused = db.table("refused", int, dict)
        self.progress = db.table("progress", str, int)

    def load(self, path):
        """Stores the rows of a file that are not stored yet, and returns the number of rows read."""
        with open(path, newline="") as file:
            done = self.progress.get(path.name, 0)
            rows = enumerate(itertools.islice(csv.DictReader(file), done, None), done)
            while batch := list(itertools.islice(rows, BATCH)):
                with self.db.write() as tx:
                    tx[self.sales].update(self.cleaned(tx, batch))
                    tx[self.progress][path.name] = batch[-1][0] + 1
            return self.progress.get(path.name, 0) - done

    def cleaned(self, tx, batch):
        """Returns the key and the value of each row that is a valid sale. Other rows are stored unchanged."""
        for number, row in batch:
            try:
                sale = Sale(row["item"].strip().lower(), int(row["pieces"]), float(row["price"]), Channel(row["channel"]))
                yield (datetime.date.fromisoformat(row["day"]), number), sale
            except (ValueError, AttributeError) as error:
                tx[self.refused][number] = {"row": row, "why": str(error)}

    def discount(self, name, channel, percent, since):
        """Lowers all prices of a channel, or none, and only once."""
        with self.db.write() as tx:
            if name in tx[self.progress]:
                return
            tx[self.progress][name] = 1
            sales = tx[self.sales]
            for key, sale in sales.items((since, 0)):
                if sale.channel is channel:
                    sales[key] = dataclasses.replace(sale, price=round(sale.price * (100 - percent) / 100, 2))

    def report(self):
        """Returns the turnover of each day and channel. The report is of one moment, even if sales are added meanwhile."""
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
