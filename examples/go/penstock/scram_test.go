package penstock

import "testing"

// The example of RFC 7677, section 3.
const (
	rfcNonce       = "rOprNGfwEbeRWgbNEkqO"
	rfcServerFirst = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
	rfcFinal       = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	rfcServerFinal = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
)

func rfcExample() *scram { return &scram{username: "user", password: "pencil", nonce: rfcNonce} }

func TestTheExampleOfTheRFC(t *testing.T) {
	dialogue := rfcExample()
	if got := string(dialogue.first()); got != "n,,n=user,r="+rfcNonce {
		t.Fatal(got)
	}
	final, err := dialogue.final([]byte(rfcServerFirst))
	if err != nil || string(final) != rfcFinal {
		t.Fatal(string(final), err)
	}
	if err := dialogue.verify([]byte(rfcServerFinal)); err != nil {
		t.Fatal(err)
	}
}

func TestAFalseServerIsFoundOut(t *testing.T) {
	for _, first := range []string{
		"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
		"r=" + rfcNonce + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
		"r=" + rfcNonce + "x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
		"r=" + rfcNonce + "x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=999999999",
		"r=" + rfcNonce + "x,s=,i=4096",
		"",
	} {
		if _, err := rfcExample().final([]byte(first)); err == nil {
			t.Error(first)
		}
	}
	dialogue := rfcExample()
	if dialogue.verify([]byte(rfcServerFinal)) == nil {
		t.Error("a proof before there was a question")
	}
	dialogue.final([]byte(rfcServerFirst))
	for _, last := range []string{"v=AAAA", "e=other-error", ""} {
		if dialogue.verify([]byte(last)) == nil {
			t.Error(last)
		}
	}
}

func TestANameWithAComma(t *testing.T) {
	dialogue := &scram{username: "anna, of =sales", nonce: "n"}
	if got := string(dialogue.first()); got != "n,,n=anna=2C of =3Dsales,r=n" {
		t.Fatal(got)
	}
}
