package factors

// Authentication methods (RFC 8176), as amr lists them.
const (
	Password = "pwd"
	OTP      = "otp"  // a TOTP code
	hardware = "hwk"  // a passkey that stays in one authenticator
	software = "swk"  // a passkey that can be copied to other devices
	user     = "user" // the authenticator verified the user
	Multi    = "mfa"  // two factors or more
)

// methods are all authentication methods, in their order in amr.
func methods() []string { return []string{Password, OTP, hardware, software, user, Multi} }

// AMR returns the amr of a login that has used methods, in a fixed order and each once. It
// adds Multi where they are two factors: something that the user knows and something that
// the user has, or a passkey with verification. A recovery code is given as Multi, because
// RFC 8176 has no name for it. Methods that it does not know are dropped.
func AMR(used ...string) []string {
	has := map[string]bool{}
	for _, method := range used {
		has[method] = true
	}
	passkey := has[hardware] || has[software]
	if has[Password] && (has[OTP] || passkey) || passkey && has[user] {
		has[Multi] = true
	}
	amr := []string{}
	for _, method := range methods() {
		if has[method] {
			amr = append(amr, method)
		}
	}
	return amr
}
