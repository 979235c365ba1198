//! Doubly linked lists threaded through the items of an arena.
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
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NIL
    }

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
    pub(crate) fn items(&self, arena: &mut impl Arena) -> Vec<u32> {
        let mut items = Vec::new();
        let mut at = self.first;
        while at != NIL {
            items.push(at);
            at = arena.links(at).after;
        }
        items
    }
}
