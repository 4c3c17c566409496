// What scripts add to pages that work without them: showing a password, copying a code or link, exact times in the
// visitor's zone, and the focus at the answer to a form. Buttons that need this file are hidden until it runs.
// It is ES2015, and each feature stands alone: what one of them lacks in a browser does not stop the others.
"use strict";

(function () {
  function feature(selector, apply) {
    Array.prototype.forEach.call(document.querySelectorAll(selector), function (element) {
      try {
        apply(element);
      } catch (e) {
        setTimeout(function () { throw e; }); // for the console, once the others have had their turn
      }
    });
  }

  feature("[data-reveal]", function (button) {
    var input = document.getElementById(button.getAttribute("data-reveal"));
    function show(on) {
      input.type = on ? "text" : "password";
      button.setAttribute("aria-pressed", String(on));
    }
    button.addEventListener("click", function () { show(input.type === "password"); });
    // A browser must not remember a shown password as ordinary text.
    input.form.addEventListener("submit", function () { show(false); });
    button.hidden = false;
  });

  // The clipboard exists only on https and localhost; elsewhere the text beside the button can be selected.
  feature("[data-copy]", function (button) {
    var label = button.textContent, words = document.body.dataset;
    function say(text) {
      button.textContent = text;
      setTimeout(function () { button.textContent = label; }, 2000);
    }
    if (!navigator.clipboard) {
      return;
    }
    button.addEventListener("click", function () {
      navigator.clipboard.writeText(button.getAttribute("data-copy")).then(function () { say(words.copied); }, function () { say(words.notCopied); });
    });
    button.hidden = false;
  });

  feature("[data-print]", function (button) {
    button.addEventListener("click", function () { window.print(); });
    button.hidden = false;
  });

  // A second click while the answer is on its way sends nothing again.
  var sent = null, sentUntil = 0;
  document.addEventListener("submit", function (event) {
    if (event.target === sent && event.timeStamp < sentUntil) {
      event.preventDefault();
    } else if (!event.defaultPrevented) {
      sent = event.target;
      sentUntil = event.timeStamp + 5000;
    }
  });
  window.addEventListener("pageshow", function () { sent = null; });

  // A name proposes a user name, until that is typed: as account.HandleOf does.
  feature("[data-proposes]", function (name) {
    var field = document.getElementById(name.getAttribute("data-proposes")), proposed = "";
    var spelled = { "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "ø": "o", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i" };
    var between = new RegExp("[^\\p{L}\\p{N}\\p{M}]+", "u");
    name.addEventListener("input", function () {
      if (field.value === proposed) {
        var latin = name.value.toLowerCase().normalize("NFC").replace(/[äöüßæøœłđðþı]/g, function (c) { return spelled[c]; });
        var words = latin.normalize("NFD").split(between).map(function (word) { return word.replace(/[^a-z0-9]/g, ""); });
        proposed = field.value = words.filter(Boolean).join("-").slice(0, 30).replace(/-+$/, "");
      }
    });
  });

  // What the service was too busy for is sent once more, at the time that it gave this visitor.
  feature("form[data-again]", function (form) {
    form.querySelector("p[hidden]").hidden = false;
    setTimeout(function () { form.submit(); }, 1000 * (Number(form.dataset.again) + Math.random()));
  });

  // Where neither the visitor nor the club has set a time zone, that of the browser replaces UTC.
  feature("time[title$=UTC]", function (time) {
    var local = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
    time.title = local.format(new Date(time.getAttribute("datetime")));
  });

  // A menu that is unfolded closes with Escape, and when something else is clicked.
  feature(".menu details", function (menu) {
    document.addEventListener("keydown", function (e) { if (e.key === "Escape") { menu.open = false; } });
    document.addEventListener("click", function (e) { if (!menu.contains(e.target)) { menu.open = false; } });
  });

  // A browser that knows the time zones offers them; some have kept names that a server need not know.
  var renamed = {
    "Africa/Asmera": "Africa/Asmara", "America/Buenos_Aires": "America/Argentina/Buenos_Aires",
    "America/Catamarca": "America/Argentina/Catamarca", "America/Coral_Harbour": "America/Atikokan",
    "America/Cordoba": "America/Argentina/Cordoba", "America/Godthab": "America/Nuuk",
    "America/Indianapolis": "America/Indiana/Indianapolis", "America/Jujuy": "America/Argentina/Jujuy",
    "America/Louisville": "America/Kentucky/Louisville", "America/Mendoza": "America/Argentina/Mendoza",
    "Asia/Calcutta": "Asia/Kolkata", "Asia/Katmandu": "Asia/Kathmandu", "Asia/Rangoon": "Asia/Yangon",
    "Asia/Saigon": "Asia/Ho_Chi_Minh", "Atlantic/Faeroe": "Atlantic/Faroe", "Europe/Kiev": "Europe/Kyiv",
    "Pacific/Enderbury": "Pacific/Kanton", "Pacific/Ponape": "Pacific/Pohnpei", "Pacific/Truk": "Pacific/Chuuk"
  };
  feature("[data-zones]", function (list) {
    Intl.supportedValuesOf("timeZone").forEach(function (zone) {
      list.appendChild(document.createElement("option")).value = renamed[zone] || zone;
    });
  });

  // The address brings the card into view, which keeps autofocus from working: what a form was answered is read out, or
  // the field is named that has to change, which then has to be in view. When everything is loaded: before, the browser
  // still goes to the address.
  feature("[data-answer]", function (answer) {
    var at = document.querySelector("main [aria-invalid=true]") || answer;
    window.addEventListener("load", function () { at.focus({ preventScroll: at === answer }); });
  });
})();
