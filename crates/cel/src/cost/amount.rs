//! Costs and sizes that lie between two bounds. Nothing overflows: the largest number stands for everything beyond.

/// What reading one character or byte costs.
pub(super) const TRAVERSAL: f64 = 0.1;

/// What matching one character of a pattern costs.
pub(super) const PATTERN: f64 = 0.25;

/// The least and the most that an evaluation costs, in the units of cel-go, as kube-apiserver estimates them.
///
/// Data without bounds is taken to fill a request of three mebibytes; where even that is not known, the most
/// is `u64::MAX`. Not a promise: some sizes, such as those of the keys of a map, are taken for zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CostEstimate {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

/// How many items, entries, characters or bytes a value can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl CostEstimate {
    pub(super) const ONE: CostEstimate = CostEstimate::exactly(1);

    pub(super) const fn exactly(cost: u64) -> CostEstimate {
        CostEstimate { min: cost, max: cost }
    }

    pub(super) fn plus(self, other: CostEstimate) -> CostEstimate {
        CostEstimate {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(super) fn times(self, other: CostEstimate) -> CostEstimate {
        CostEstimate {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    pub(super) fn scaled(self, factor: f64) -> CostEstimate {
        CostEstimate {
            min: scaled(self.min, factor),
            max: scaled(self.max, factor),
        }
    }

    pub(super) fn or(self, other: CostEstimate) -> CostEstimate {
        CostEstimate {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

impl Size {
    pub(super) const ANY: Size = Size {
        min: 0,
        max: u64::MAX,
    };
    pub(super) const ONE: Size = Size::exactly(1);
    /// Of nothing: taken together with another it is the other.
    pub(super) const NONE: Size = Size {
        min: u64::MAX,
        max: 0,
    };

    pub(super) const fn exactly(n: u64) -> Size {
        Size { min: n, max: n }
    }

    pub(super) fn plus(self, other: Size) -> Size {
        Size {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(super) fn times(self, other: Size) -> Size {
        Size {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    pub(super) fn or(self, other: Size) -> Size {
        Size {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// The cost if each of them costs so much.
    pub(super) fn each(self, cost: CostEstimate) -> CostEstimate {
        let Size { min, max } = self;
        CostEstimate { min, max }.times(cost)
    }

    pub(super) fn scaled(self, factor: f64) -> CostEstimate {
        let Size { min, max } = self;
        CostEstimate { min, max }.scaled(factor)
    }

    /// The cost of reading it once.
    pub(super) fn traversal(self) -> CostEstimate {
        self.scaled(TRAVERSAL)
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as kube-apiserver reckons; what is too large becomes the largest"
)]
fn scaled(n: u64, factor: f64) -> u64 {
    (n as f64 * factor).ceil() as u64
}
