package auth

import (
	"encoding/hex"
	"strings"
	"testing"

	"authgate/internal/test/must"
)

// The CMAC is that of the examples in RFC 4493, section 4, and NIST SP 800-38B for 256 bits.
func TestCMAC(t *testing.T) {
	t.Parallel()
	const message = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51" +
		"30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
	for key, sums := range map[string]map[int]string{
		"2b7e151628aed2a6abf7158809cf4f3c": {
			0: "bb1d6929e95937287fa37d129b756746", 16: "070a16b46b4d4144f79bdd9dd04a287c",
			40: "dfa66747de9ae63030ca32611497c827", 64: "51f0bebf7e3b9d92fc49741779363cfe",
		},
		"603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4": {
			0: "028962f61b7bf89efc6b551f4667d983", 16: "28a7023f452e8f82bd4bf28d8c37c35c",
			40: "aaf3d8f1de5640c232f5b169b9c911e6", 64: "e1992190549f6ed5696a2c056c315410",
		},
	} {
		m := credentialMACsOf(must.Get(hex.DecodeString(key))(t))
		for n, want := range sums {
			state := credentialKey{1} // of an earlier message
			m.sum(&state, must.Get(hex.DecodeString(message[:2*n]))(t))
			if got := hex.EncodeToString(state[:]); got != want {
				t.Errorf("%d bytes with %s: %s, want %s", n, key, got, want)
			}
		}
	}
}

// BenchmarkCredentialKey is the key of a credential in a goroutine of its own, as over HTTP/2.
func BenchmarkCredentialKey(b *testing.B) {
	m, stored := newCredentialMACs(), strings.Repeat("h", 97)
	b.ReportAllocs()
	for b.Loop() {
		done := make(chan credentialKey)
		go func() { done <- m.key("basic", "service", "s3rvice", stored) }()
		<-done
	}
}
