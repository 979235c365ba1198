//! An object as the store holds it: as it came, or compressed.

use std::{
    hash::{BuildHasher as _, Hash as _, Hasher as _},
    sync::Arc,
};

use hashbrown::DefaultHashBuilder;
use skopos_object::Object;

/// One object. Cloning shares it.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Plain(Arc<Object>),
    Packed(Arc<Packed>),
}

/// A compressed object, with what is needed to recognise it without unpacking.
#[derive(Debug)]
pub(crate) struct Packed {
    text: Box<[u8]>,
    unpacked: u32,
    /// A hash of the key, independent of the one it is found by.
    check: u64,
    /// A hash of uid and version.
    stamp: u64,
    dictionary: Arc<Vec<u8>>,
}

/// The hashes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash {
    /// The one that it is found by.
    pub(crate) place: u64,
    /// Independent of it, to recognise an object without unpacking.
    check: u64,
}

/// An object's key, and its hashes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) hash: KeyHash,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Key<'a> {
    /// The key of an object whose hashes are known.
    pub(crate) fn hashed(hash: KeyHash, object: &'a Object) -> Self {
        Self {
            hash,
            namespace: object.namespace(),
            name: object.name(),
        }
    }
}

/// Hashes keys. Clones hash alike.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyHasher {
    place: DefaultHashBuilder,
    check: DefaultHashBuilder,
}

impl KeyHasher {
    pub(crate) fn key<'a>(&self, namespace: &'a str, name: &'a str) -> Key<'a> {
        let hash = |builder: &DefaultHashBuilder| {
            let mut hasher = builder.build_hasher();
            namespace.hash(&mut hasher);
            name.hash(&mut hasher);
            hasher.finish()
        };
        let hash = KeyHash {
            place: hash(&self.place),
            check: hash(&self.check),
        };
        Key {
            hash,
            namespace,
            name,
        }
    }

    pub(crate) fn key_of<'a>(&self, object: &'a Object) -> Key<'a> {
        self.key(object.namespace(), object.name())
    }

    fn stamp(&self, object: &Object) -> u64 {
        let mut hasher = self.check.build_hasher();
        object.uid().hash(&mut hasher);
        object.api_version().hash(&mut hasher);
        object.resource_version().hash(&mut hasher);
        hasher.finish()
    }
}

impl Body {
    pub(crate) fn plain(object: Object) -> Self {
        Self::Plain(Arc::new(object))
    }

    /// The object; unpacks it if need be.
    pub(crate) fn object(&self) -> Object {
        match self {
            Self::Plain(object) => Object::clone(object),
            Self::Packed(packed) => packed.unpack(),
        }
    }

    pub(crate) fn into_object(self) -> Object {
        match self {
            Self::Plain(object) => Arc::unwrap_or_clone(object),
            Self::Packed(packed) => packed.unpack(),
        }
    }

    /// The object, shared if it is not packed.
    pub(crate) fn unpacked(&self) -> Arc<Object> {
        match self {
            Self::Plain(object) => object.clone(),
            Self::Packed(packed) => Arc::new(packed.unpack()),
        }
    }

    pub(crate) fn is_key(&self, key: &Key<'_>) -> bool {
        match self {
            Self::Plain(object) => object.name() == key.name && object.namespace() == key.namespace,
            Self::Packed(packed) => packed.check == key.hash.check,
        }
    }

    /// Whether this is the same version of the same object.
    pub(crate) fn is_version_of(&self, object: &Object, hasher: &KeyHasher) -> bool {
        match self {
            Self::Plain(ours) => is_same_version(ours, object),
            Self::Packed(packed) => packed.stamp == hasher.stamp(object),
        }
    }

    /// How much memory it takes, nearly.
    pub(crate) fn size(&self) -> usize {
        // Beside the text: the counts of the two shared pointers, and what the allocator adds.
        const SHARED: usize = 72;
        match self {
            Self::Plain(object) => object.bytes().len() + size_of::<Object>() + SHARED,
            Self::Packed(packed) => packed.text.len() + size_of::<Packed>() + SHARED / 2,
        }
    }
}

/// An object without a version is never taken to be the same.
pub(crate) fn is_same_version(a: &Object, b: &Object) -> bool {
    let [ours, theirs] = [a, b].map(Object::resource_version);
    // The same object in another version of its kind has the same resource version.
    a.uid() == b.uid() && ours == theirs && !ours.is_empty() && a.api_version() == b.api_version()
}

/// Compresses objects against some that came before, which they resemble.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packer {
    dictionary: Option<Arc<Vec<u8>>>,
}

/// So much text makes a dictionary. Each object pays for scanning it when it is compressed.
const DICTIONARY_BYTES: usize = 8 * 1024;

impl Packer {
    /// Whether there is a dictionary yet.
    pub(crate) fn is_ready(&self) -> bool {
        self.dictionary.is_some()
    }

    /// Makes a dictionary if `samples` have enough text.
    pub(crate) fn learn<'a>(&mut self, samples: impl Iterator<Item = &'a Object>) {
        let mut text = Vec::new();
        for sample in samples {
            text.extend_from_slice(sample.bytes());
            if text.len() >= DICTIONARY_BYTES {
                // The end of a dictionary is the part that is reached best, so no sample is favoured.
                text.truncate(2 * DICTIONARY_BYTES);
                self.dictionary = Some(Arc::new(text));
                return;
            }
        }
    }

    /// The compressed form; the object as it is while there is no dictionary, or if that is no gain.
    pub(crate) fn pack(&self, body: Body, key: &Key<'_>, hasher: &KeyHasher) -> Body {
        let (Body::Plain(object), Some(dictionary)) = (&body, &self.dictionary) else {
            return body;
        };
        let text = lz4_flex::block::compress_with_dict(object.bytes(), dictionary);
        let (Ok(unpacked), true) = (
            u32::try_from(object.bytes().len()),
            text.len() < object.bytes().len(),
        ) else {
            return body;
        };
        Body::Packed(Arc::new(Packed {
            text: text.into_boxed_slice(),
            unpacked,
            check: key.hash.check,
            stamp: hasher.stamp(object),
            dictionary: dictionary.clone(),
        }))
    }
}

impl Packed {
    fn unpack(&self) -> Object {
        let text =
            lz4_flex::block::decompress_with_dict(&self.text, self.unpacked as usize, &self.dictionary)
                .expect("text is what compress_with_dict made with this dictionary");
        Object::parse(text.into()).expect("text was an object when it was packed")
    }
}
