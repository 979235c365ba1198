//! Kinds, keys, versions, the compact object, selectors, patches, field diffs, changes and the ListWatch trait.
