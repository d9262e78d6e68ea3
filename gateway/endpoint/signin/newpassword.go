package signin

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"authgate/gateway/pages"
	"authgate/gateway/proxy/web"
)

const (
	minPassword = 8    // characters
	maxPassword = 1024 // bytes
)

// Mistakes in a new password, as the cause of a *web.Error.
var (
	errShort   = errors.New("the new password is too short")
	errLong    = errors.New("the new password is too long")
	errDiffers = errors.New("the new password and its repetition differ")
)

// CheckNewPassword returns the error of a password that users cannot choose. again are its
// repetitions: a page wants one, because its user does not see the typed text.
func CheckNewPassword(next string, again ...string) error {
	switch {
	case len(again) > 0 && again[0] != next:
		return web.BadRequest("The new password and its repetition differ.", errDiffers)
	case utf8.RuneCountInString(next) < minPassword:
		return web.BadRequest(fmt.Sprintf("The new password must have at least %d characters.", minPassword), errShort)
	case len(next) > maxPassword:
		return web.BadRequest(fmt.Sprintf("The new password must have at most %d bytes.", maxPassword), errLong)
	}
	return nil
}

// PasswordNotice returns the notice of a page about an error of CheckNewPassword, and
// pages.ManageNothing for any other.
func PasswordNotice(err error) pages.ManageNotice {
	switch {
	case errors.Is(err, errDiffers):
		return pages.ManageDiffers
	case errors.Is(err, errLong):
		return pages.ManageLong
	case errors.Is(err, errShort):
		return pages.ManageShort
	}
	return pages.ManageNothing
}
