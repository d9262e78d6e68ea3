// Package issuers has the sections of a configuration that say who else issues identities:
// providers, at which users sign in, with delegated, and token.trusted_issuers.
package issuers
