package auth

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"authgate/gateway/password"
)

// BenchmarkRequest measures what a request needs before its credential is verified.
func BenchmarkRequest(b *testing.B) {
	header := http.Header{
		"Authorization": {"Bearer aaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbb.cccccccccccc"},
		"Cookie":        {"theme=dark; session_id=0123456789abcdefghijklmnopqrstuvwxyzABCDEFG; lang=en"},
		"Set-Cookie":    {"theme=dark; Path=/; Max-Age=31536000", "id=0123456789abcdef; Path=/; HttpOnly; Expires=Wed, 09 Jun 2027 10:18:14 GMT"},
	}
	for name, do := range map[string]func() bool{
		"ReadCredentials": func() bool { _, err := ReadCredentials(header, allCookies, netip.Addr{}); return err == nil },
		"ToApplication":   func() bool { return len(allCookies.ToApplication(header["Cookie"], false)) == 1 },
		"ToBrowser":       func() bool { _, dropped := allCookies.ToBrowser(header["Set-Cookie"]); return dropped == 0 },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !do() {
					b.Fatal("it failed")
				}
			}
		})
	}
}

// BenchmarkCheck measures a check of a remembered password and of one for a login, while the
// throttle counts failures of many others.
func BenchmarkCheck(b *testing.B) {
	accounts := newAccounts(Account{Username: "service", PasswordHash: must(password.Parse(must(password.New("s3rvice"))(b)))(b)})
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
	noError(b, warm())
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
