"""Transactions and snapshots for asyncio, each on a thread of its own."""

import asyncio


async def write(db, work):
    def run():
        with db.write() as tx:
            return work(tx)

    return await asyncio.to_thread(run)


async def read(db, work):
    def run():
        with db.snapshot() as snapshot:
            return work(snapshot)

    return await asyncio.to_thread(run)
