//! An object in one of the versions of its kind, with the type it has there.

use std::borrow::Cow;

use serde_json::Value;

use super::check::{Duplicates, check};
use super::set::FieldSet;
use super::types::Type;
use super::update::Write;
use super::walk::{fields_of, remove};
use crate::structural::Structural;

/// An object that has the type of a version.
#[derive(Clone)]
pub(super) struct Typed<'s, 'v> {
    pub(super) version: &'v str,
    pub(super) ty: Type<'s>,
    pub(super) value: Cow<'v, Value>,
}

impl<'s, 'v> Typed<'s, 'v> {
    /// Every field and item, and the declared fields that lead to them.
    pub(super) fn fields(&self) -> FieldSet {
        fields_of(self.ty, &self.value).with_named_fields(self.ty)
    }

    pub(super) fn without(&self, gone: &FieldSet) -> Typed<'s, 'v> {
        Typed {
            value: Cow::Owned(remove(self.ty, &self.value, gone)),
            ..*self
        }
    }
}

impl<'a> Write<'a> {
    /// An object of the request's version in another one.
    pub(super) fn in_version<'v>(
        &self,
        object: &'v Value,
        version: &'v str,
    ) -> Result<Option<Typed<'a, 'v>>, String>
    where
        'a: 'v,
    {
        self.converted(self.typed(object), version)
    }

    /// An object of the request's version, which was checked.
    pub(super) fn typed<'v>(&self, object: &'v Value) -> Typed<'a, 'v>
    where
        'a: 'v,
    {
        Typed {
            version: self.manager.api_version,
            ty: Type::object(self.target.schema),
            value: Cow::Borrowed(object),
        }
    }

    /// Brings an object to a version, whose type it must have; nothing if a built-in kind has no such version.
    ///
    /// Custom resources are not changed on the way: a field that the other version does not declare is a fault, and
    /// so is a version that is gone.
    pub(super) fn converted<'v>(
        &self,
        object: Typed<'a, 'v>,
        version: &'v str,
    ) -> Result<Option<Typed<'a, 'v>>, String>
    where
        'a: 'v,
    {
        if object.version == version {
            return Ok(Some(object));
        }
        let Some(schema) = self.schema_of(version) else {
            return match self.target.empty {
                Some(_) => Ok(None),
                None => Err(format!(
                    "request to convert CR to an invalid group/version: {version}"
                )),
            };
        };
        let ty = Type::object(schema);
        let value = match self.target.convert {
            Some(convert) => Cow::Owned(convert(&object.value, object.version, version)),
            None => object.value,
        };
        check(ty, &value, Duplicates::Forbidden)?;
        Ok(Some(Typed { version, ty, value }))
    }

    fn schema_of(&self, version: &str) -> Option<&'a Structural> {
        if version == self.manager.api_version {
            return Some(self.target.schema);
        }
        let mut others = self.target.versions.iter();
        others
            .find(|(name, _)| *name == version)
            .map(|(_, schema)| *schema)
    }
}
