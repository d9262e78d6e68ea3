package auth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/password"
)

func ExampleReadCredentials() {
	header := http.Header{
		"Authorization": {"Bearer abc.def.ghi"},
		"Cookie":        {"theme=dark; session_id=4711"},
	}
	names := &auth.CookieNames{Session: "session_id"}
	creds, err := auth.ReadCredentials(header, names, netip.MustParseAddr("192.0.2.7"))
	fmt.Println(creds.Scheme, creds.Value, creds.Session, err)
	fmt.Println(names.ToApplication(header["Cookie"], false))

	header.Add("Cookie", "session_id=4712")
	_, err = auth.ReadCredentials(header, names, netip.MustParseAddr("192.0.2.7"))
	fmt.Println(err)
	// Output:
	// bearer abc.def.ghi 4711 <nil>
	// [theme=dark]
	// auth: ambiguous credentials
}

// After three wrong passwords for an account, from whatever address, further
// passwords are not checked until the window ends.
func ExampleThrottle() {
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	hash, err := password.Parse("$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW")
	if err != nil {
		fmt.Println(err)
		return
	}
	accounts := auth.NewAccounts([]auth.Account{{Username: "alice", PasswordHash: hash}})
	throttle := auth.NewThrottle(3, 5*time.Minute, now)
	verifier := auth.NewVerifier(auth.NewHasher(1), throttle, 10_000, 5*time.Minute, now)
	for i := range 4 {
		client := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		_, err := verifier.CheckFresh(context.Background(), accounts, "alice", "guess", client)
		var throttled *auth.ThrottledError
		if errors.As(err, &throttled) {
			fmt.Println("try again in", throttled.RetryAfter)
		} else {
			fmt.Println(err)
		}
	}
	// Output:
	// auth: credential rejected
	// auth: credential rejected
	// auth: credential rejected
	// try again in 5m0s
}
