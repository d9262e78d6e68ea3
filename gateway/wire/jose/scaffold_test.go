package jose

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"sync"
	"testing"

	"authgate/internal/test/must"
)

var (
	testSecret = []byte("0123456789abcdefghijklmnopqrstuv")
	testRSA    = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })
)

func testKeys(tb testing.TB, algorithm string) *Keys {
	tb.Helper()
	if algorithm == "HS256" {
		return must.Get(NewHS256(testSecret))(tb)
	}
	return must.Get(NewRS256(must.Get(testRSA())(tb)))(tb)
}

func base64url(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }
