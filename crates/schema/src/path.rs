//! A path that lives on the stack and becomes text only when an error needs it.

/// Where a walk stands. Each level borrows the one above, so descending costs nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At<'a> {
    Root,
    /// A named field.
    Field(&'a At<'a>, &'a str),
    /// A value of a map.
    Key(&'a At<'a>, &'a str),
    /// An array item.
    Index(&'a At<'a>, usize),
}

impl At<'_> {
    /// The path as the OpenAPI validator writes it: `spec.list[0].map.key`.
    pub(crate) fn dotted(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Style::Dotted);
        out
    }

    /// The path as field errors write it: `spec.list[0].map[key]`.
    pub(crate) fn bracketed(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Style::Bracketed);
        out
    }

    fn write(&self, out: &mut String, style: Style) {
        match self {
            At::Root => {}
            At::Field(parent, name) => {
                parent.write(out, style);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            At::Key(parent, name) => {
                parent.write(out, style);
                match style {
                    // At the root this leaves a leading dot, and kube-apiserver shows it too.
                    Style::Dotted => {
                        out.push('.');
                        out.push_str(name);
                    }
                    Style::Bracketed => {
                        out.push('[');
                        out.push_str(name);
                        out.push(']');
                    }
                }
            }
            At::Index(parent, index) => {
                parent.write(out, style);
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Style {
    Dotted,
    Bracketed,
}
