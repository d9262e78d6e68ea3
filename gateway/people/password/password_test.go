package password

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// Parts of hashes.
const (
	argonTail = "$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	bcrypt53  = "c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC"
)

// cheapArgon2id returns an argon2id hash that costs next to nothing.
func cheapArgon2id(password string) string {
	h := Hash{memory: 8, passes: 1, lanes: 1, salt: random(16), key: random(32)}
	h.key = h.derive(password)
	return h.phc()
}

// cheapBcrypt returns a bcrypt hash of the lowest cost.
func cheapBcrypt(tb testing.TB, password string) string {
	tb.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		tb.Fatal(err)
	}
	return string(h)
}

func parsed(tb testing.TB, s string) Hash {
	tb.Helper()
	h, err := Parse(s)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"päss wörd", strings.Repeat("x", maxPassword)} {
		first, err := New(password)
		if err != nil || !strings.HasPrefix(first, "$argon2id$v=19$m=19456,t=2,p=1$") {
			t.Fatalf("got %s, %v, want other parameters", first, err)
		}
		h := parsed(t, first)
		if len(h.salt) != 16 || len(h.key) != 32 || !h.Verify(password) || h.Verify(password+"x") || h.Verify("") {
			t.Errorf("salt of %d and key of %d bytes, want 16 and 32, and a match of %q alone",
				len(h.salt), len(h.key), password)
		}
		if second, err := New(password); err != nil || first == second {
			t.Errorf("hashed twice: equal hashes, or error %v", err)
		}
	}
	for _, password := range []string{"", strings.Repeat("x", maxPassword+1), "caf\xe9"} {
		if h, err := New(password); err == nil {
			t.Errorf("%q: got %s, want an error", password, h)
		}
	}
}

// The argon2id hashes are those of the reference implementation's own test,
// the bcrypt ones those of the jBCrypt test suite and of Apache's manual.
func TestKnownHashes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ password, hash string }{
		{"password", "$argon2id$v=19$m=256,t=2,p=1" + argonTail},
		{"password", "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc"},
		{"myPassword", "$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC"},
		{"a", "$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe"},
		{"abc", "$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i"},
		{"abc", "$2b$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i"},
	} {
		h := parsed(t, c.hash)
		if !h.Verify(c.password) {
			t.Errorf("%s does not match %q", c.hash, c.password)
		}
		if h.Verify(c.password+" ") || h.Verify(strings.ToUpper(c.password)) || h.Verify("") {
			t.Errorf("%s matches another password than %q", c.hash, c.password)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const unsupported, bounds, canonical = "not a supported password hash", "within their limits", "canonical"
	argon2id := func(parameters string) string { return "$argon2id$v=19$" + parameters + argonTail }
	salted := func(salt, key string) string { return "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$" + key }
	const salt, key = "c29tZXNhbHQ", "nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	for _, c := range []struct{ name, hash, want string }{
		{"empty", "", unsupported},
		{"clear text", "wonderland", unsupported},
		{"argon2i", "$argon2i$v=19$m=256,t=2,p=1" + argonTail, unsupported},
		{"no version", "$argon2id$m=256,t=2,p=1" + argonTail, "is it cut off"},
		{"old version", "$argon2id$v=16$m=256,t=2,p=1" + argonTail, "v=19"},
		{"empty key", salted(salt, ""), "0 bytes, want 16 to 64"},
		{"more parts", salted(salt, key+"$"), "is it cut off"},
		{"other order", argon2id("t=2,m=256,p=1"), "in this order"},
		{"more parameters", argon2id("m=256,t=2,p=1,keyid=a"), canonical},
		{"leading zero", argon2id("m=0256,t=2,p=1"), canonical},
		{"too little memory", argon2id("m=15,t=2,p=2"), "m is 15, want 16"},
		{"too much memory", argon2id("m=1048577,t=2,p=1"), "m is 1048577"},
		{"memory overflows", argon2id("m=4294967552,t=2,p=1"), bounds},
		{"no passes", argon2id("m=256,t=0,p=1"), "t is 0"},
		{"many passes", argon2id("m=256,t=65,p=1"), "t is 65"},
		{"no lanes", argon2id("m=256,t=2,p=0"), "p is 0"},
		{"many lanes", argon2id("m=1024,t=2,p=65"), "p is 65"},
		{"lanes overflow", argon2id("m=256,t=2,p=257"), bounds},
		{"short salt", salted("c2FsdHNhbA", key), "salt has 7 bytes"},
		{"long salt", salted(strings.Repeat("AAAA", 22), key), "salt has 66 bytes"},
		{"short key", salted(salt, strings.Repeat("AAAA", 5)), "hash has 15 bytes"},
		{"long key", salted(salt, strings.Repeat("AAAA", 22)), "hash has 66 bytes"},
		{"padding", salted(salt, key+"="), "base64"},
		{"line break", salted(salt, key+"\n"), canonical},
		{"stray bits", salted("c29tZXNhbHR", key), canonical},
		{"bcrypt of the broken kind", "$2x$05$" + bcrypt53, "want $2a$, $2b$ or $2y$"},
		{"bcrypt cut off", "$2y$05$" + bcrypt53[1:], "cut off"},
		{"bcrypt with a tail", "$2y$05$" + bcrypt53 + "\n", "cut off"},
		{"bcrypt too cheap", "$2y$03$" + bcrypt53, "cost is 03"},
		{"bcrypt too costly", "$2y$21$" + bcrypt53, "cost is 21"},
	} {
		h, err := Parse(c.hash)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error that says %q", c.name, err, c.want)
		} else if c.hash != "" && strings.Contains(err.Error(), c.hash) {
			t.Errorf("%s: %q quotes what may be a secret", c.name, err)
		}
		if h.Verify("") || h.Verify("password") {
			t.Errorf("%s: what is returned with the error matches a password", c.name)
		}
	}
}

// Not parallel: it counts allocations, which follow the work that is done.
func TestOverlongPasswordsCostTheSameWork(t *testing.T) {
	for name, c := range map[string]struct {
		hash    Hash
		longest int
	}{
		"argon2id": {parsed(t, cheapArgon2id("secret")), maxPassword},
		"bcrypt":   {parsed(t, cheapBcrypt(t, "secret")), maxBcryptPassword},
	} {
		work := func(length int) float64 {
			password := strings.Repeat("x", length)
			return testing.AllocsPerRun(5, func() { c.hash.Verify(password) })
		}
		want := work(c.longest)
		if want == 0 {
			t.Fatalf("%s: no work at all", name)
		}
		for _, length := range []int{c.longest + 1, 64 << 10} {
			// Half, for what the runtime allocates meanwhile: a check that
			// gives up early allocates next to nothing.
			if got := work(length); got < want/2 {
				t.Errorf("%s: %d bytes cost %v allocations, %d bytes %v", name, length, got, c.longest, want)
			}
		}
	}
}

// A password that an algorithm would truncate or confuse with another never
// matches.
func TestVerifyTakesTheWholePassword(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, test := range map[string]struct {
		hash     Hash
		password string
		want     bool
	}{
		"bcrypt, longest":          {parsed(t, cheapBcrypt(t, x(72))), x(72), true},
		"bcrypt, longer":           {parsed(t, cheapBcrypt(t, x(72))), x(73), false},
		"bcrypt, no NUL":           {parsed(t, cheapBcrypt(t, "ab")), "ab", true},
		"bcrypt, NUL":              {parsed(t, cheapBcrypt(t, "ab")), "ab\x00ab", false}, // the same to bcrypt
		"argon2id, longest":        {parsed(t, cheapArgon2id(x(maxPassword))), x(maxPassword), true},
		"argon2id, longer":         {parsed(t, cheapArgon2id(x(maxPassword))), x(maxPassword + 1), false},
		"argon2id, a foreign hash": {parsed(t, cheapArgon2id(x(maxPassword+1))), x(maxPassword + 1), false},
		"zero hash":                {Hash{}, "x", false},
		"zero hash, empty":         {Hash{}, "", false},
	} {
		if got := test.hash.Verify(test.password); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// A password matches as it is sent, or in NFC. Keyboards send one form or another.
func TestVerifyNormalization(t *testing.T) {
	t.Parallel()
	const composed, decomposed = "p\u00e4ss \u00e9\u212b", "pa\u0308ss e\u0301\u212b"
	const normal = "p\u00e4ss \u00e9\u00c5"
	long := strings.Repeat("e\u0301", maxPassword/2) // longer than the limit, unless in NFC
	for name, test := range map[string]struct {
		hashed, sent string
		want         bool
	}{
		"as it was hashed": {decomposed, decomposed, true},
		"in NFC":           {normal, decomposed, true},
		"also of NFC":      {normal, composed, true},
		// It would take a hash for each form.
		"the form that was hashed is not sent": {decomposed, normal, false},
		"another letter":                       {"p\u00e4ss", "pass", false},
		"a compatibility form":                 {"pass", "p\uff41ss", false},
		"short enough in NFC":                  {strings.Repeat("\u00e9", maxPassword/2), long, true},
		"too long in NFC":                      {strings.Repeat("\u00e9", maxPassword/2) + "x", long + "x", false},
	} {
		if got := parsed(t, cheapArgon2id(test.hashed)).Verify(test.sent); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
	if !parsed(t, cheapBcrypt(t, normal)).Verify(decomposed) {
		t.Error("bcrypt: not compared in NFC")
	}
	bcrypted := parsed(t, cheapBcrypt(t, strings.Repeat("\u00e9", 36)))
	if !bcrypted.Verify(strings.Repeat("e\u0301", 36)) {
		t.Error("bcrypt: what is short enough in NFC does not match")
	}
	// A new hash is of NFC, so that every form matches.
	for _, sent := range []string{composed, decomposed, normal} {
		h, err := New(sent)
		if err != nil {
			t.Fatal(err)
		}
		for _, again := range []string{composed, decomposed, normal} {
			if !parsed(t, h).Verify(again) {
				t.Errorf("%q is hashed, and %q does not match", sent, again)
			}
		}
	}
	if h, err := New(long + "x"); err == nil {
		t.Errorf("%s is of a password that is too long in every form", h)
	}
}

func TestDecoyCostsTheSame(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		cheapArgon2id("secret"), cheapBcrypt(t, "secret"), "$argon2id$v=19$m=256,t=2,p=2" + argonTail,
	} {
		h := parsed(t, s)
		decoy := h.Decoy()
		again := parsed(t, decoy.encoded)
		if again.Cost() != h.Cost() || decoy.Cost() != h.Cost() ||
			len(again.salt) != len(h.salt) || len(again.key) != len(h.key) {
			t.Errorf("the decoy of %s is %s, which costs something else", s, decoy.encoded)
		}
		if decoy.Verify("secret") || h.Decoy().encoded == decoy.encoded {
			t.Errorf("the decoy of %s matches its password, or is always the same", s)
		}
	}
}

// Hashes have the same cost if they have the same parameters.
func TestCost(t *testing.T) {
	t.Parallel()
	for hash, want := range map[string]string{
		"$argon2id$v=19$m=256,t=3,p=2" + argonTail: "argon2id,m=256,t=3,p=2",
		"$2y$06$" + bcrypt53:                       "bcrypt,cost=6",
		"$2a$06$" + bcrypt53:                       "bcrypt,cost=6",
	} {
		if got := parsed(t, hash).Cost(); got != want {
			t.Errorf("%s has the cost %s, want %s", hash, got, want)
		}
	}
}

// No password hash is read in part, or crashes the parser.
func FuzzParse(f *testing.F) {
	f.Add("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4")
	f.Add("$argon2id$v=19$m=1048576,t=64,p=64$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=8, t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC")
	f.Add("$2a$20$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := Parse(s)
		if err != nil {
			if h.encoded != "" || h.Cost() != (Hash{}).Cost() {
				t.Errorf("%q: an error together with a hash", s)
			}
			return
		}
		if h.encoded != s {
			t.Errorf("%q encodes as %q", s, h.encoded)
		}
		if h.bcrypt > 0 {
			if cost, err := bcrypt.Cost([]byte(s)); err != nil || cost != h.bcrypt || cost < 4 || cost > 20 {
				t.Errorf("%q: cost %d, bcrypt says %d, %v", s, h.bcrypt, cost, err)
			}
			return
		}
		if h.phc() != s {
			t.Errorf("%q encodes as %q", s, h.phc())
		}
		if h.memory > 1<<20 || h.memory < 8*uint32(h.lanes) || h.passes-1 > 63 || h.lanes-1 > 63 ||
			len(h.salt) < 8 || len(h.salt) > 64 || len(h.key) < 16 || len(h.key) > 64 {
			t.Errorf("%q is out of bounds", s)
		}
		decoy, err := Parse(h.Decoy().encoded)
		if err != nil || decoy.Cost() != h.Cost() {
			t.Errorf("the decoy of %q does not cost the same: %v", s, err)
		}
	})
}

func BenchmarkVerifyDefaultHash(b *testing.B) {
	hash := Unmatched()
	b.ReportAllocs()
	for b.Loop() {
		hash.Verify("wonderland")
	}
}

func TestHashDoesNotPrint(t *testing.T) {
	t.Parallel()
	hash := parsed(t, cheapArgon2id("secret"))
	in := struct{ Hash Hash }{hash}
	encoded, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("hash", "hash", hash, "in", in)
	text := fmt.Sprintf("%v %+v %#v %s %x %d %v %+v %#v", hash, hash, hash, hash, hash, hash, in, in, in) +
		string(encoded) + logged.String()
	for _, part := range []string{
		hash.Encoded(), "argon2id", fmt.Sprint(hash.salt), fmt.Sprintf("%x", hash.key), fmt.Sprintf("%#v", hash.salt),
	} {
		if strings.Contains(text, part) {
			t.Errorf("%q shows in %s", part, text)
		}
	}
}
