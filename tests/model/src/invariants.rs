//! The invariants of the model's tables, which must hold after every write.

use domain::order::Status;

use super::tables::{BUYERS, ORDERS, OrderNo, Tables, bit, buyer};

impl Tables {
    pub fn check(&self) -> Result<(), String> {
        for at in &self.buckets {
            let [held, sold] = [at.holders, at.sold_to].map(|ids| ids.count_ones() as i8);
            if at.free < 0 || sold != at.sold || at.free + held + at.sold != at.cap {
                return Err(format!("a bucket does not add up: {at:?}"));
            }
        }
        let mut live = [None; BUYERS];
        for id in 0..ORDERS as OrderNo {
            let Some(order) = self.order(id) else { continue };
            let status = order.status();
            if status.is_live()
                && let Some(other) = live[buyer(id)].replace(id)
            {
                return Err(format!("buyer {} has two live orders: {other} and {id}", buyer(id)));
            }
            let at = &self.buckets[usize::from(order.bucket)];
            let has_them = match status {
                Status::PendingPayment => at.holds(id),
                Status::Paid | Status::Refunding => at.holds(id) || at.sold_to(id),
                Status::Closed | Status::Failed => !at.sold_to(id),
                // A later write gives its units back.
                Status::Refunded => true,
            };
            if status == Status::Failed && self.accepted & bit(id) != 0 {
                return Err(format!("order {id} was accepted but is FAILED"));
            }
            if !has_them {
                return Err(format!("order {id} is {}, but its bucket {} is {at:?}", status.as_str(), order.bucket));
            }
        }
        Ok(())
    }
}
