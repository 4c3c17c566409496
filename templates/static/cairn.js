// What scripts add to pages that work without them: showing a password, copying a link, local times, and sending an
// authorization response on. Buttons that need this file are hidden until it runs.
"use strict";

for (const button of document.querySelectorAll("[data-reveal]")) {
  const input = document.getElementById(button.dataset.reveal);
  const show = (on) => {
    input.type = on ? "text" : "password";
    button.setAttribute("aria-pressed", String(on));
  };
  button.addEventListener("click", () => show(input.type === "password"));
  // A browser must not remember a shown password as ordinary text.
  input.form.addEventListener("submit", () => show(false));
  button.hidden = false;
}

// The clipboard exists only on https and localhost; elsewhere the text beside the button can be selected.
if (navigator.clipboard) {
  for (const button of document.querySelectorAll("[data-copy]")) {
    const label = button.textContent;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not copied";
      }
      setTimeout(() => { button.textContent = label; }, 2000);
    });
    button.hidden = false;
  }
}

const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
for (const time of document.querySelectorAll("time[datetime]")) {
  time.title = time.textContent;
  time.textContent = local.format(new Date(time.dateTime));
}

// A native application's address waits for the button: browsers open other programs only after a click. The prototypes'
// methods, because a parameter named "submit" or "getAttribute" would hide the form's own.
if (document.body.dataset.page === "form-post") {
  const form = document.getElementById("form-post");
  if (/^https?:/i.test(Element.prototype.getAttribute.call(form, "action"))) {
    HTMLFormElement.prototype.submit.call(form);
  }
}
