//! What expressions may name: variables and functions of the host.

use std::sync::Arc;

use crate::{
    check, decl::Decl, functions::Overload, parser, plan, program::Program, source::CompileError, types::Type,
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
        plan::plan(self, source, &parsed.root, &checked)
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
    pub fn function(mut self, name: &str, args: &[Type], result: Type) -> EnvBuilder {
        self.inner.functions.push(HostFunction {
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
