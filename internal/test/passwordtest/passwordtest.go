// Package passwordtest makes password hashes of the lowest cost, for tests.
package passwordtest

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"testing"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"

	"authgate/gateway/people/password"
	"authgate/internal/test/must"
)

// The costs of Argon2id and Bcrypt, in the words of password.Hash.Cost.
const (
	Argon2idCost = "argon2id,m=8,t=1,p=1"
	BcryptCost   = "bcrypt,cost=4"
)

// Argon2id returns an argon2id hash. It panics if that fails, so that tables can have it.
func Argon2id(plain string) password.Hash {
	salt := []byte(rand.Text())[:16]
	encode := base64.RawStdEncoding.EncodeToString
	key := argon2.IDKey([]byte(plain), salt, 1, 8, 1, 32)
	hash, err := password.Parse(fmt.Sprintf("$argon2id$v=19$m=8,t=1,p=1$%s$%s", encode(salt), encode(key)))
	if err != nil {
		panic(err)
	}
	return hash
}

// Bcrypt returns a bcrypt hash.
func Bcrypt(tb testing.TB, plain string) password.Hash {
	tb.Helper()
	encoded := must.Get(bcrypt.GenerateFromPassword([]byte(plain), bcrypt.MinCost))(tb)
	return must.Get(password.Parse(string(encoded)))(tb)
}
