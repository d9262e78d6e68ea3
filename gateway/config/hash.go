package config

import (
	"errors"
	"slices"
	"strings"

	"authgate/gateway/password"
)

// foreignHashes begin hashes of kinds that people have and that are refused.
var foreignHashes = []string{"$apr1$", "{SHA}", "$1$", "$5$", "$6$"}

// checkPasswordHash says what is wrong with a stored password hash. The error
// does not repeat the hash.
func checkPasswordHash(hash string) error {
	switch {
	case hash == "":
		return errors.New("the hash is empty; make one with `authgate hash-password`")
	case strings.HasPrefix(hash, "$argon2") && !strings.HasPrefix(hash, "$argon2id$"):
		return errors.New("the hash is of another kind of argon2; expected argon2id, as `authgate hash-password` makes it")
	case slices.ContainsFunc(foreignHashes, func(kind string) bool { return strings.HasPrefix(hash, kind) }):
		return errors.New("the hash is of a kind that is not supported; expected argon2id or bcrypt, as `authgate hash-password` makes it")
	}
	_, err := password.Parse(hash)
	return err
}
