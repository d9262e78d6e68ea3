package pages

import "html/template"

// OwnFactors has the user's factors beside the password, and the actions that change them. Without
// an action, its part cannot be changed. Other fields of the forms are parameters of the actions.
type OwnFactors struct {
	Passkeys      []OwnPasskey
	TOTP          bool
	RecoveryCodes int // unused ones

	PasskeyOptions, PasskeyAction string // gets name and credential, by a script
	PasskeyRemove                 string // gets id
	TOTPAction, TOTPRemove        string
	TOTPConfirm                   string // gets code
	RecoveryAction                string
	SignInAgainURL                string // leads to the actions through a sign-in; empty: none is needed

	Setup    *TOTPSetup // an app that waits for its first code; nil: none
	NewCodes []string   // recovery codes that were made just now
	// Needed is the host that a user wants to open who needs a second factor for it; empty:
	// none. ContinueURL leads there, when they have it.
	Needed, ContinueURL string
}

// Any reports whether the user has a second factor.
func (f *OwnFactors) Any() bool { return f.TOTP || len(f.Passkeys) > 0 }

// OwnPasskey is one passkey of the user of the page.
type OwnPasskey struct{ ID, Name string }

// TOTPSetup is a secret for an app. Without the secret, the app has it already.
type TOTPSetup struct {
	Secret string
	QR     template.HTML // the same as an image, for cameras
}

// factors returns the text of a notice about factors.
func (l *texts) factors(n ManageNotice) (string, error) {
	switch n {
	case ManagePasskey:
		return l.text("factors.done.passkey")
	case ManageFactor:
		return l.text("factors.done.removed")
	case ManageWrongCode:
		return l.text("factors.wrong")
	case ManageNoPending:
		return l.text("factors.late")
	}
	return l.text("factors.refused")
}
