package auth

import (
	"fmt"
	"testing"
	"time"

	"authgate/gateway/must"
	"authgate/gateway/password"
)

// BenchmarkCheck measures a check of a remembered password and of one for a login, while the
// throttle counts failures of many others.
func BenchmarkCheck(b *testing.B) {
	accounts := newAccounts(Account{Username: "service", PasswordHash: must.Get(password.Parse(must.Get(password.New("s3rvice"))(b)))(b)})
	throttle := NewThrottle(10, 5*time.Minute, time.Now)
	for i := range 10_000 {
		fail(b, throttle, fmt.Sprintf("user-%d", i), nthAddr(i))
	}
	verifier := NewVerifier(NewHasher(0), throttle, 10_000, time.Hour, time.Now)
	warm := func() error {
		_, err := verifier.Check(b.Context(), "basic", accounts, "service", "s3rvice", nthAddr(0))
		return err
	}
	fresh := func() error {
		_, err := verifier.CheckFresh(b.Context(), accounts, "service", "s3rvice", nthAddr(0))
		return err
	}
	must.Do(b, warm())
	for name, check := range map[string]func() error{"warm": warm, "fresh": fresh} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := check(); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
