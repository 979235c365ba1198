//! Doubly linked lists and rings threaded through the items of an arena.
//!
//! A key whose priority rises leaves the middle of its list, so the lists must give up any item at once and
//! without a trace: marks left behind for later would pile up in a level that is not being served.

/// No item.
const NIL: u32 = u32::MAX;

/// An item's neighbours in the one list it is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    before: u32,
    after: u32,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            before: NIL,
            after: NIL,
        }
    }
}

/// Where the items of a list live.
pub(crate) trait Arena {
    fn links(&mut self, id: u32) -> &mut Links;
    fn neighbours(&self, id: u32) -> Links;
}

/// The items of a circle, of which one is next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    next: u32,
}

impl Default for Ring {
    fn default() -> Self {
        Self { next: NIL }
    }
}

impl Ring {
    #[inline]
    pub(crate) fn next(&self) -> Option<u32> {
        (self.next != NIL).then_some(self.next)
    }

    /// Puts an item where it comes last.
    #[inline]
    pub(crate) fn push_back(&mut self, arena: &mut impl Arena, id: u32) {
        if self.next == NIL {
            *arena.links(id) = Links {
                before: id,
                after: id,
            };
            self.next = id;
            return;
        }
        let after = self.next;
        let before = std::mem::replace(&mut arena.links(after).before, id);
        arena.links(before).after = id;
        *arena.links(id) = Links { before, after };
    }

    /// Puts an item where it comes next.
    pub(crate) fn push_front(&mut self, arena: &mut impl Arena, id: u32) {
        self.push_back(arena, id);
        self.next = id;
    }

    /// Takes `id` out. It must be in this ring.
    #[inline]
    pub(crate) fn remove(&mut self, arena: &mut impl Arena, id: u32) {
        let Links { before, after } = std::mem::take(arena.links(id));
        if after == id {
            self.next = NIL;
            return;
        }
        arena.links(before).after = after;
        arena.links(after).before = before;
        if self.next == id {
            self.next = after;
        }
    }

    /// The next item comes last from now on.
    #[inline]
    pub(crate) fn rotate(&mut self, arena: &impl Arena) {
        if self.next != NIL {
            self.next = arena.neighbours(self.next).after;
        }
    }
}

/// First and last item of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self {
            first: NIL,
            last: NIL,
        }
    }
}

impl List {
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NIL
    }

    #[inline]
    pub(crate) fn push_back(&mut self, arena: &mut impl Arena, id: u32) {
        *arena.links(id) = Links {
            before: self.last,
            after: NIL,
        };
        match self.last {
            NIL => self.first = id,
            last => arena.links(last).after = id,
        }
        self.last = id;
    }

    pub(crate) fn push_front(&mut self, arena: &mut impl Arena, id: u32) {
        *arena.links(id) = Links {
            before: NIL,
            after: self.first,
        };
        match self.first {
            NIL => self.last = id,
            first => arena.links(first).before = id,
        }
        self.first = id;
    }

    #[inline]
    pub(crate) fn second(&self, arena: &impl Arena) -> Option<u32> {
        let second = arena.neighbours(self.first()?).after;
        (second != NIL).then_some(second)
    }

    /// Takes the first item out.
    #[inline]
    pub(crate) fn pop_front(&mut self, arena: &mut impl Arena) -> Option<u32> {
        let first = self.first()?;
        self.first = std::mem::take(arena.links(first)).after;
        match self.first {
            NIL => self.last = NIL,
            // Also brings what comes next near, before it is needed.
            next => arena.links(next).before = NIL,
        }
        Some(first)
    }

    /// Takes `id` out. It must be in this list.
    pub(crate) fn remove(&mut self, arena: &mut impl Arena, id: u32) {
        let Links { before, after } = std::mem::take(arena.links(id));
        match before {
            NIL => self.first = after,
            before => arena.links(before).after = after,
        }
        match after {
            NIL => self.last = before,
            after => arena.links(after).before = before,
        }
    }

    /// The items, first to last.
    pub(crate) fn items<A: Arena>(&self, arena: &A) -> impl Iterator<Item = u32> {
        let next = |at: u32| (at != NIL).then_some(at);
        std::iter::successors(next(self.first), move |at| next(arena.neighbours(*at).after))
    }
}
