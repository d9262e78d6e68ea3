package accounts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"authgate/gateway/people/password"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Check checks accounts, which are written at Places, and parses their password hashes. It
// removes empty roles, from the accounts alone and not from the lists that they have. colons: names may
// hold a colon, because certificates of clients name the accounts, too.
func Check(users []Account, places []Place, colons bool) {
	c := credentials{names: usernames{}, colons: colons}
	passkeys := map[string]Place{}
	for i, at := range places {
		account := &users[i]
		account.Hash = c.checkCredential(at, account.Username, account.PasswordHash)
		at.checkProfile(account)
		at.checkFactors(account, passkeys)
		if slices.Contains(account.Roles, "") {
			account.Roles = slices.DeleteFunc(slices.Clone(account.Roles), func(role string) bool { return role == "" })
		}
	}
	c.weak.warn()
}

// CheckBasic is Check for users of the mechanism basic.
func CheckBasic(users []BasicUser, places []Place) {
	c := credentials{names: usernames{}}
	for i, at := range places {
		users[i].Hash = c.checkCredential(at, users[i].Username, users[i].PasswordHash)
	}
	c.weak.warn()
}

// credentials checks the names and password hashes of one list.
type credentials struct {
	names  usernames
	colons bool
	weak   weakHashes
}

// checkCredential checks the user at a place, and parses the password hash.
func (c *credentials) checkCredential(at Place, name string, hash strictyaml.Secret) password.Hash {
	c.names.checkUsername(at, name, c.colons)
	if hash == "" && at.inFile() && !at.doc.Given(at.path+".password_hash") {
		return password.Hash{} // added or invited, and no password is set yet
	}
	parsed := at.parseHash(hash)
	c.weak.add(at, name, parsed)
	return parsed
}

// CheckUsername returns an error unless an account can have that name; see Check for colons.
func CheckUsername(name string, colons bool) error {
	if name == "" {
		return errors.New("a user name is needed and must not be empty")
	}
	if err := policy.CheckName(name); err != nil {
		return fmt.Errorf("the user name %w", err)
	}
	if strings.Contains(name, ":") && !colons {
		return errors.New("the user name contains a colon, which separates name and password in HTTP Basic")
	}
	return nil
}

// CheckNewUsername is CheckUsername for a name that a user or an operator has just entered: it must not
// look like another one. Files may have such names, from programs.
func CheckNewUsername(name string, colons bool) error {
	if err := CheckUsername(name, colons); err != nil {
		return err
	}
	if err := policy.CheckVisible(name); err != nil {
		return fmt.Errorf("the user name %w", err)
	}
	return nil
}

// usernames has the places of the users of one list, by the folded name.
type usernames map[string]Place

// checkUsername checks a user name. Two names in one list must not differ only in case or in
// Unicode normalization: people cannot tell them apart, and they would share one counter
// of failed logins.
func (names usernames) checkUsername(at Place, name string, colons bool) {
	doc, path := at.doc, at.path+".username"
	if err := CheckUsername(name, colons); err != nil {
		doc.Fault(path, "%v", err)
		return
	}
	warnHidden(doc, path, "the user name", name)
	folded := policy.FoldName(name)
	if first, twice := names[folded]; twice {
		doc.Fault(path, "the user name %q is already used at %s; "+
			"names must differ in more than case or Unicode normalization", name,
			first.doc.Place(first.path+".username"))
		return
	}
	names[folded] = at
}

// warnHidden warns of a name that looks like another one.
func warnHidden(doc *strictyaml.Document, path, what, name string) {
	if err := policy.CheckVisible(name); err != nil {
		doc.Warn(path, "%s %v; it looks like another one", what, err)
	}
}

// parseHash parses the password hash of the user at a place.
func (at Place) parseHash(hash strictyaml.Secret) password.Hash {
	parsed, err := parseHash(hash.Reveal())
	if err == nil {
		return parsed
	}
	at.doc.Redact(hash.Reveal()) // it may be the password; diagnostics know a hash by its form
	if path := at.path + ".password_hash"; at.doc.Given(path) {
		at.doc.Fault(path, "%v", err)
	} else {
		at.doc.Fault(path, "a hash of the password is needed; make one with `authgate hash-password`")
	}
	return parsed
}

// foreignHashes are prefixes of common kinds of hashes that are not supported.
var foreignHashes = []string{"$apr1$", "{SHA}", "$1$", "$5$", "$6$"}

// parseHash parses a stored password hash. The error does not quote the hash.
func parseHash(hash string) (password.Hash, error) {
	switch {
	case hash == "":
		return password.Hash{}, errors.New("the hash is empty; make one with `authgate hash-password`")
	case strings.HasPrefix(hash, "$argon2") && !strings.HasPrefix(hash, "$argon2id$"):
		return password.Hash{}, errors.New("the hash is another kind of argon2; " +
			"expected argon2id, which `authgate hash-password` makes")
	case slices.ContainsFunc(foreignHashes, func(kind string) bool { return strings.HasPrefix(hash, kind) }):
		return password.Hash{}, errors.New("the kind of the hash is not supported; " +
			"expected argon2id, which `authgate hash-password` makes, or bcrypt")
	}
	return password.Parse(hash)
}

// weakHashes counts the users of one list whose hashes are weak.
type weakHashes struct {
	n     int
	first Place
	name  string // of the first
	why   string
}

// add adds a user if the hash is weak.
func (w *weakHashes) add(at Place, name string, hash password.Hash) {
	why := hash.Weakness()
	if why == "" {
		return
	}
	if w.n++; w.n == 1 {
		w.first, w.name, w.why = at, name, why
	}
}

// warn warns at the first of the users.
func (w *weakHashes) warn() {
	if w.n == 0 {
		return
	}
	others := ""
	switch more := w.n - 1; more {
	case 0:
	case 1:
		others = ", and so is 1 more"
	default:
		others = fmt.Sprintf(", and so are %d more", more)
	}
	w.first.doc.Warn(w.first.path+".password_hash", "the hash of %s is weak%s: %s; "+
		"a stolen copy gives the password away soon; make a hash with `authgate hash-password`", w.name, others, w.why)
}

// checkProfile checks the name, the email address and the roles of an account,
// which upstreams receive.
func (at Place) checkProfile(a *Account) {
	if strings.ContainsFunc(a.Name, unicode.IsControl) {
		at.doc.Fault(at.path+".name", "the name contains a control character")
	} else {
		warnHidden(at.doc, at.path+".name", "the name", a.Name)
	}
	local, domain, found := strings.Cut(a.Email, "@")
	if a.Email != "" && (!found || local == "" || domain == "" || strings.Contains(domain, "@") ||
		strings.ContainsFunc(a.Email, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })) {
		at.doc.Fault(at.path+".email", "%q is not an address; expected one like alice@example.org", a.Email)
	}
	for i, role := range a.Roles {
		path := fmt.Sprintf("%s.roles[%d]", at.path, i)
		if role == "" && at.doc.Given(path+".until") {
			at.doc.Fault(path+".name", "the name of the role is needed and must not be empty")
		} else if err := policy.CheckRole(role); err != nil && role != "" {
			at.doc.Fault(path, "the role %q %v", role, err)
		} else if role != "" && slices.Contains(a.Roles[:i], role) {
			at.doc.Fault(path, "the role %q is named twice; keep one", role)
		}
	}
}

// checkFactors checks the factors of an account. passkeys has the places of the accounts
// with passkeys, by the id of the passkey.
func (at Place) checkFactors(a *Account, passkeys map[string]Place) {
	a.Factors.Check(func(path, format string, args ...any) { at.doc.Fault(at.path+"."+path, format, args...) })
	for i, passkey := range a.Factors.Passkeys {
		first, twice := passkeys[passkey.ID]
		if twice && first != at {
			at.doc.Fault(fmt.Sprintf("%s.passkeys[%d].id", at.path, i), "is a passkey of the account at %s too; "+
				"a passkey belongs to one account", first.doc.Place(first.path+".username"))
			continue
		}
		passkeys[passkey.ID] = at
	}
}
