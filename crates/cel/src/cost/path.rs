//! The ways from variables to values through the declared data, which bounds their sizes.
//!
//! cel-go keeps a way as a slice of names and lengthens it with `append`. Where a slice has room left, two ways that
//! begin with the same one write over each other's end: in `labels.all(k, v, …)` the way of `k` becomes that of `v`.
//! What kube-apiserver reckons depends on it, so ways share their ends here too.

use crate::decl::{Decl, Shape};

use super::amount::Size;

/// One step on a way.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'e> {
    /// A variable, where a way begins.
    Variable(Option<&'e Decl>),
    Field(&'e str),
    Element,
    Key,
    Index,
}

/// A way, or the absence of one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Path {
    /// Which of the slices it is kept in.
    slice: usize,
    n_steps: usize,
}

/// All ways of an expression.
#[derive(Debug)]
pub(super) struct Paths<'e> {
    /// What `self` declares.
    root: Option<&'e Decl>,
    slices: Vec<Slice<'e>>,
}

#[derive(Debug)]
struct Slice<'e> {
    steps: Vec<Step<'e>>,
    /// How many steps it holds before it must be copied.
    room: usize,
}

impl<'e> Paths<'e> {
    pub(super) fn new(root: Option<&'e Decl>) -> Paths<'e> {
        Paths {
            root,
            slices: Vec::new(),
        }
    }

    /// A way with one more step.
    pub(super) fn append(&mut self, path: Path, step: Step<'e>) -> Path {
        let n_steps = path.n_steps + 1;
        if let Some(slice) = self.slices.get_mut(path.slice)
            && n_steps > 1
            && slice.room > path.n_steps
        {
            match slice.steps.get_mut(path.n_steps) {
                Some(end) => *end = step,
                None => slice.steps.push(step),
            }
            return Path { n_steps, ..path };
        }
        let mut steps = self.steps(path).to_vec();
        steps.push(step);
        let room = match path.n_steps {
            0 => 1,
            _ => 2 * self.slices[path.slice].room,
        };
        self.slices.push(Slice { steps, room });
        Path {
            slice: self.slices.len() - 1,
            n_steps,
        }
    }

    fn steps(&self, path: Path) -> &[Step<'e>] {
        match path.n_steps {
            0 => &[],
            n => &self.slices[path.slice].steps[..n],
        }
    }

    /// The size of what a way leads to, if that is declared.
    pub(super) fn size(&self, path: Path) -> Option<Size> {
        self.size_beyond(path, &[])
    }

    /// The size of the elements of what a way leads to.
    pub(super) fn element_size(&self, path: Path) -> Option<Size> {
        self.size_beyond(path, &[Step::Element])
    }

    fn size_beyond(&self, path: Path, more: &[Step<'e>]) -> Option<Size> {
        let (first, rest) = self.steps(path).split_first()?;
        // The first step is passed over, whatever it is: what comes from no variable counts as `self`.
        let begin = match first {
            Step::Variable(Some(decl)) => *decl,
            _ => self.root?,
        };
        size_below(begin, &[rest, more].concat())
    }
}

fn size_below(begin: &Decl, steps: &[Step<'_>]) -> Option<Size> {
    let mut decl = begin;
    for (index, step) in steps.iter().enumerate() {
        decl = match (step, &decl.shape) {
            (Step::Element, Shape::List(list)) => &list.item,
            (Step::Element, Shape::Map(value)) => value,
            // Keys are taken to have no size, and nothing below them.
            (Step::Key, Shape::Map(_)) => {
                return (index + 1 == steps.len()).then_some(Size::exactly(0));
            }
            // Only by the name in expressions, which a keyword that is selected as it is does not have.
            (Step::Field(name), Shape::Object(object)) => {
                let field = object.fields().iter().find(|field| &*field.escaped == *name);
                &field?.decl
            }
            _ => return None,
        };
    }
    let max = match (&decl.shape, decl.max_elements) {
        (_, Some(max)) => max,
        (Shape::Dyn, None) => return None,
        // Objects and numbers have no size of their own.
        (_, None) => 0,
    };
    Some(Size { min: 0, max })
}
