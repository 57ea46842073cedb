//! The nine tables of TPC-C (clause 1.3), with the sizes of their columns.
//!
//! Money is in cents, a tax or a discount in ten-thousandths, a date in seconds. The two money columns that can be negative use two's complement.
//! Variable text has its maximum size. A null date or carrier is 0. The columns that a transaction changes are in the first line of their row.

use crate::table::table;

table! {
    /// A warehouse (clause 1.3.1: 89 bytes).
    warehouse {
        W_ID: Number(4), W_TAX: Number(4), W_YTD: Number(8), W_NAME: Text(10), W_STREET_1: Text(20),
        W_STREET_2: Text(20), W_CITY: Text(20), W_STATE: Text(2), W_ZIP: Text(9),
    }
}

table! {
    /// A district (95 bytes).
    district {
        D_ID: Number(1), D_W_ID: Number(4), D_NEXT_O_ID: Number(4), D_TAX: Number(4), D_YTD: Number(8),
        D_NAME: Text(10), D_STREET_1: Text(20), D_STREET_2: Text(20), D_CITY: Text(20), D_STATE: Text(2),
        D_ZIP: Text(9),
    }
}

table! {
    /// A customer (655 bytes).
    customer {
        C_W_ID: Number(4), C_ID: Number(4), C_D_ID: Number(1), C_PAYMENT_CNT: Number(2),
        C_DELIVERY_CNT: Number(2), C_BALANCE: Number(8), C_YTD_PAYMENT: Number(8), C_DISCOUNT: Number(4),
        C_CREDIT: Text(2), C_MIDDLE: Text(2), C_LAST: Text(16), C_FIRST: Text(16), C_PHONE: Text(16),
        C_SINCE: Number(8), C_CREDIT_LIM: Number(8), C_STREET_1: Text(20), C_STREET_2: Text(20),
        C_CITY: Text(20), C_STATE: Text(2), C_ZIP: Text(9), C_DATA: Text(500),
    }
}

table! {
    /// A payment (46 bytes).
    history {
        H_C_W_ID: Number(4), H_C_ID: Number(4), H_W_ID: Number(4), H_AMOUNT: Number(4), H_DATE: Number(8),
        H_C_D_ID: Number(1), H_D_ID: Number(1), H_DATA: Text(24),
    }
}

table! {
    /// An order not yet delivered (8 bytes).
    new_order {
        NO_W_ID: Number(4), NO_O_ID: Number(4), NO_D_ID: Number(1),
    }
}

table! {
    /// An order (24 bytes).
    order {
        O_W_ID: Number(4), O_ID: Number(4), O_C_ID: Number(4), O_D_ID: Number(1), O_CARRIER_ID: Number(1),
        O_OL_CNT: Number(1), O_ALL_LOCAL: Number(1), O_ENTRY_D: Number(8),
    }
}

table! {
    /// A line of an order (54 bytes).
    order_line {
        OL_W_ID: Number(4), OL_O_ID: Number(4), OL_I_ID: Number(4), OL_SUPPLY_W_ID: Number(4),
        OL_AMOUNT: Number(4), OL_D_ID: Number(1), OL_NUMBER: Number(1), OL_QUANTITY: Number(1),
        OL_DELIVERY_D: Number(8), OL_DIST_INFO: Text(24),
    }
}

table! {
    /// An item (82 bytes).
    item {
        I_ID: Number(4), I_IM_ID: Number(4), I_PRICE: Number(4), I_NAME: Text(24), I_DATA: Text(50),
    }
}

table! {
    /// The stock of an item in a warehouse (306 bytes).
    stock {
        S_W_ID: Number(4), S_I_ID: Number(4), S_QUANTITY: Number(4), S_YTD: Number(4), S_ORDER_CNT: Number(4),
        S_REMOTE_CNT: Number(4), S_DIST: Text(240), S_DATA: Text(50),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows have at least the typical lengths in the specification (clause 1.2.1), and are only a little longer.
    #[test]
    fn rows_have_the_sizes_of_the_specification() {
        let rows = [
            (warehouse::WORDS, 89),
            (district::WORDS, 95),
            (customer::WORDS, 655),
            (history::WORDS, 46),
            (new_order::WORDS, 8),
            (order::WORDS, 24),
            (order_line::WORDS, 54),
            (item::WORDS, 82),
            (stock::WORDS, 306),
        ];
        for (words, typical) in rows {
            assert!((typical..typical + 32).contains(&(8 * words)), "{words} words for {typical} bytes");
        }
    }
}
