package factors_test

import (
	"fmt"
	"time"

	"authgate/gateway/people/factors"
	"authgate/gateway/store/seal"
	"authgate/internal/test/authenticator"
)

// A user adds a passkey, and signs in with it. The map is the store, and the variable set is
// the account in the file.
func Example_passkey() {
	site, err := factors.NewRelyingParty("example.org", "Example", "https://auth.example.org")
	if err != nil {
		fmt.Println(err)
		return
	}
	browser := &authenticator.Authenticator{Origin: "https://auth.example.org", Verified: true}
	stored, set := map[string][]byte{}, factors.Set{}
	take := func(key string) []byte {
		record := stored[key]
		delete(stored, key)
		return record
	}
	lookup := func(id string) *factors.Owner {
		if p, ok := set.Passkey(id); ok {
			return &factors.Owner{Account: "alice", Passkey: p}
		}
		return nil
	}

	begun, _ := site.BeginPasskey(factors.NewUser{Account: "alice", Passkeys: set.Passkeys})
	stored[begun.Key] = begun.Record // for ChallengeLife
	answer, _ := browser.Create(begun.Options)
	key, _ := factors.CeremonyKey(answer)
	passkey, err := site.FinishPasskey(take(key), "alice", "My phone", answer, lookup)
	if err != nil {
		fmt.Println(err)
		return
	}
	set, _ = set.WithPasskey(*passkey)

	begun, _ = site.BeginSignIn()
	stored[begun.Key] = begun.Record
	answer, _ = browser.Get(begun.Options)
	key, _ = factors.CeremonyKey(answer)
	assertion, err := site.FinishSignIn(take(key), answer, lookup)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(assertion.Account, assertion.Passkey.Name, assertion.AMR())
	_, err = site.FinishSignIn(take(key), answer, lookup)
	fmt.Println("again:", err != nil)
	// Output:
	// alice My phone [hwk user mfa]
	// again: true
}

// A user adds TOTP, and signs in with a code and a recovery code.
func Example_totp() {
	box, _ := seal.New([]byte("at least 32 bytes of store secret"))
	now := time.Now()

	secret := factors.NewSecret() // shown with secret.URI and QRCode
	pending := secret.Pending(box, "alice")

	secret, _ = factors.OpenPending(box, "alice", pending)
	totp, err := secret.Confirm(box, "alice", authenticatorApp(secret, now), now)
	if err != nil {
		fmt.Println(err)
		return
	}
	set, codes := factors.Set{}.WithTOTP(totp).WithRecoveryCodes("alice")

	_, err = set.TOTP.Check(box, "alice", authenticatorApp(secret, now), now, 0)
	fmt.Println("the code that confirmed:", err)
	later := now.Add(time.Minute)
	_, err = set.TOTP.Check(box, "alice", authenticatorApp(secret, later), later, 0)
	fmt.Println("a later code:", err, factors.AMR(factors.Password, factors.OTP))
	set, ok := set.Spend("alice", codes[0])
	fmt.Println("a recovery code:", ok, len(set.Recovery), factors.AMR(factors.Password, factors.Multi))
	// Output:
	// the code that confirmed: the code is wrong, too old or used
	// a later code: <nil> [pwd otp mfa]
	// a recovery code: true 9 [pwd mfa]
}

func authenticatorApp(secret factors.Secret, at time.Time) string {
	code, err := authenticator.Code(secret.Reveal(), at)
	if err != nil {
		return err.Error()
	}
	return code
}
