//! The sale to plan for, and how its buyers arrive.

/// How arrivals are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// A rush at the start: twice the mean rate, falling linearly to zero.
    Front,
    /// A constant rate.
    Even,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Sale {
    pub units: u32,
    pub buyers: u32,
    /// Seconds over which buyers arrive.
    pub seconds: u32,
    pub shape: Shape,
    /// How often a buyer retries after a 429 or 503.
    pub comes_back: u32,
    /// The percentage of orders that are paid. Units of the others are sold again.
    pub paid_percent: u32,
}

impl Sale {
    /// Arrivals per second at a given time.
    pub fn rate(&self, second: f64) -> f64 {
        let (buyers, seconds) = (f64::from(self.buyers), f64::from(self.seconds.max(1)));
        match self.shape {
            _ if second < 0.0 || second >= seconds => 0.0,
            Shape::Even => buyers / seconds,
            Shape::Front => 2.0 * buyers / seconds * (1.0 - second / seconds),
        }
    }

    /// How many buyers have arrived by a given time.
    pub fn come_by(&self, second: f64) -> f64 {
        let (buyers, seconds) = (f64::from(self.buyers), f64::from(self.seconds.max(1)));
        let share = (second / seconds).clamp(0.0, 1.0);
        match self.shape {
            Shape::Even => buyers * share,
            Shape::Front => buyers * share * (2.0 - share),
        }
    }

    /// The most arrivals in one second.
    pub fn peak(&self) -> f64 {
        self.come_by(1.0).max(self.rate(0.0).min(f64::from(self.buyers)))
    }

    /// The total number of orders. Units that are not paid for are sold again, as long as there are buyers.
    pub fn orders(&self) -> f64 {
        let paid = f64::from(self.paid_percent.clamp(1, 100)) / 100.0;
        (f64::from(self.units) / paid).min(f64::from(self.buyers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sale(shape: Shape) -> Sale {
        Sale { units: 10_000, buyers: 1_000_000, seconds: 60, shape, comes_back: 3, paid_percent: 80 }
    }

    #[test]
    fn every_buyer_arrives_exactly_once() {
        for shape in [Shape::Front, Shape::Even] {
            let sale = sale(shape);
            assert_eq!((sale.come_by(0.0), sale.come_by(60.0), sale.come_by(99.0)), (0.0, 1_000_000.0, 1_000_000.0));
            let summed: f64 = (0..60_000).map(|ms| sale.rate((f64::from(ms) + 0.5) / 1_000.0) / 1_000.0).sum();
            assert!((summed - 1_000_000.0).abs() < 1.0, "{shape:?}: {summed}");
        }
        assert!(sale(Shape::Front).peak() > 33_000.0 && sale(Shape::Even).peak() < 16_700.0);
    }

    #[test]
    fn unpaid_units_are_sold_again() {
        assert_eq!(sale(Shape::Even).orders(), 12_500.0);
        assert_eq!(Sale { buyers: 500, ..sale(Shape::Even) }.orders(), 500.0);
    }
}
