package config

import (
	"errors"
	"slices"
	"strings"

	"authgate/gateway/password"
)

// foreignHashes are prefixes of common kinds of hashes that are not supported.
var foreignHashes = []string{"$apr1$", "{SHA}", "$1$", "$5$", "$6$"}

// parseHash parses a stored password hash. The error does not quote the hash.
func parseHash(hash string) (password.Hash, error) {
	switch {
	case hash == "":
		return password.Hash{}, errors.New("the hash is empty; make one with `authgate hash-password`")
	case strings.HasPrefix(hash, "$argon2") && !strings.HasPrefix(hash, "$argon2id$"):
		return password.Hash{}, errors.New("the hash is another kind of argon2; expected argon2id, which `authgate hash-password` makes")
	case slices.ContainsFunc(foreignHashes, func(kind string) bool { return strings.HasPrefix(hash, kind) }):
		return password.Hash{}, errors.New("the kind of the hash is not supported; expected argon2id, which `authgate hash-password` makes, or bcrypt")
	}
	return password.Parse(hash)
}
