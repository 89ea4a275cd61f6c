select name, value
from latchkey.settings;
