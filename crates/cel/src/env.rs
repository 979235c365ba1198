//! What expressions may name: variables and functions of the host.

use std::sync::Arc;

use crate::{
    check, decl::Decl, functions::Overload, parser, parts, plan, program::Program, source::CompileError,
    types::Type,
};

/// What expressions may name beside the standard functions. Cheap to clone and to share.
///
/// ```
/// use skopos_cel::{Activation, Decl, Env};
///
/// let env = Env::builder().variable("object", Decl::dynamic()).build();
/// let program = env.compile("object.spec.replicas > 3").unwrap();
/// let object = serde_json::json!({"spec": {"replicas": 5}});
/// let vars = Activation::new(&program).with_json("object", &object);
/// assert_eq!(program.eval(&vars).unwrap().as_bool(), Some(true));
/// ```
#[derive(Debug, Clone)]
pub struct Env {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    variables: Vec<Variable>,
    functions: Vec<HostFunction>,
}

/// A declared variable.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: Box<str>,
    pub(crate) decl: Decl,
    /// Whether its value is an optional one.
    pub(crate) is_optional: bool,
}

impl Variable {
    pub(crate) fn as_type(&self) -> Type {
        match self.is_optional {
            true => Type::optional(self.decl.as_type()),
            false => self.decl.as_type(),
        }
    }
}

/// A function that the host provides.
#[derive(Debug)]
pub(crate) struct HostFunction {
    pub(crate) name: Box<str>,
    pub(crate) overload: [Overload; 1],
    /// Whether its arguments are left to the host.
    pub(crate) is_lazy: bool,
}

/// Collects what an [`Env`] declares.
#[derive(Debug, Default)]
pub struct EnvBuilder {
    inner: Inner,
}

impl Env {
    /// Starts an environment with the standard functions only.
    #[must_use]
    pub fn builder() -> EnvBuilder {
        EnvBuilder::default()
    }

    /// Parses and checks an expression.
    ///
    /// # Errors
    /// What is wrong with it, with places, in the words of cel-go.
    pub fn compile(&self, source: &str) -> Result<Program, CompileError> {
        let parsed = parser::parse(source)?;
        let checked = check::check(self, source, &parsed)?;
        plan::plan(self, source, &parsed, &checked)
    }

    /// The parts of an expression whose values tell how it came to its own: what `&&`, `||`, `!` and `?:` combine, and
    /// what is compared there. In the order of the text, each once, without constants; nothing if it does not parse.
    #[must_use]
    pub fn parts(source: &str) -> Vec<&str> {
        parser::parse(source).map_or_else(|_| Vec::new(), |parsed| parts::parts(source, &parsed))
    }

    pub(crate) fn variables(&self) -> &[Variable] {
        &self.inner.variables
    }

    pub(crate) fn variable(&self, name: &str) -> Option<(usize, &Variable)> {
        let variables = self.inner.variables.iter().enumerate();
        variables
            .into_iter()
            .find(|(_, variable)| &*variable.name == name)
    }

    pub(crate) fn function(&self, name: &str) -> Option<&HostFunction> {
        self.inner
            .functions
            .iter()
            .find(|function| &*function.name == name)
    }
}

impl EnvBuilder {
    /// Declares a variable. A second one of the same name is not seen.
    #[must_use]
    pub fn variable(mut self, name: &str, decl: Decl) -> EnvBuilder {
        self.inner.variables.push(Variable {
            name: name.into(),
            decl,
            is_optional: false,
        });
        self
    }

    /// Declares a variable that may be absent, such as `oldSelf` with `optionalOldSelf: true`: expressions see
    /// an optional value.
    #[must_use]
    pub fn optional_variable(mut self, name: &str, decl: Decl) -> EnvBuilder {
        self.inner.variables.push(Variable {
            name: name.into(),
            decl,
            is_optional: true,
        });
        self
    }

    /// Declares a global function that the [`Host`](crate::Host) of an evaluation answers, such as
    /// `heldFor(bool, duration)`. It cannot take the name of a standard one.
    #[must_use]
    pub fn function(self, name: &str, args: &[Type], result: Type) -> EnvBuilder {
        self.host_function(name, args, result, false)
    }

    /// Declares a function whose arguments are checked but not evaluated: the host is called with none, and reads
    /// them as text in [`CallSite::args`](crate::CallSite::args), to compile and evaluate them as it needs; with other
    /// variables, say, as `was(expression)` does.
    #[must_use]
    pub fn lazy_function(self, name: &str, args: &[Type], result: Type) -> EnvBuilder {
        self.host_function(name, args, result, true)
    }

    fn host_function(mut self, name: &str, args: &[Type], result: Type, is_lazy: bool) -> EnvBuilder {
        self.inner.functions.push(HostFunction {
            is_lazy,
            name: name.into(),
            overload: [Overload {
                is_member: false,
                args: args.to_vec(),
                result,
                params: Vec::new(),
            }],
        });
        self
    }

    /// The environment.
    #[must_use]
    pub fn build(self) -> Env {
        Env {
            inner: Arc::new(self.inner),
        }
    }
}
